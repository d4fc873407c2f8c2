#!/usr/bin/env bash
# launch.sh BUILD - `zellige launch`: ranks here and by ssh, whole lines with their rank, the first failure ends all, no token on a command line.
. "$(dirname "$0")/lib.sh"

zellige=$build/zellige
port=$((20000 + RANDOM % 20000))
launch() {
    port=$((port + 16))
    timeout 60 "$zellige" launch --starting-port $port "$@"
}

check "each line has its rank" says '^\[0\] rank 0$' launch -n 3 -- sh -c 'echo rank $MLX_RANK'
whole() { # 3 ranks write 200 long lines each, in pieces
    launch -n 3 -- bash -c 'for i in $(seq 200); do printf "%s-" $MLX_RANK; printf "%01000d" $i; echo; done' >"$tmp/lines" &&
        [ "$(wc -l <"$tmp/lines")" = 600 ] && ! grep -qvE '^\[([0-2])\] \1-[0-9]{1000}$' "$tmp/lines"
}
check "lines are never torn" whole
check "a last line without its end" says '^\[1\] end$' launch -n 2 -- printf end
check "the first failure is the exit code" exits 7 launch -n 3 -- sh -c '[ $MLX_RANK = 1 ] && exit 7; sleep 50'
quick() {
    local begin=$SECONDS
    launch -n 3 -- sh -c '[ $MLX_RANK = 1 ] && exit 7; sleep 50'
    [ $((SECONDS - begin)) -lt 20 ]
}
check "and ends the others" quick
check "a signal is 128 and its number" exits 137 launch -n 2 -- sh -c '[ $MLX_RANK = 1 ] && kill -9 $$; sleep 50'
check "variables are given on" says '^\[1\] a b=c$' launch -n 2 --env "WORDS=a b=c" -- sh -c 'echo $WORDS'
check "a program that is not there" exits 127 launch -n 2 -- ./no-such-program
check "no program" exits 2 launch -n 2
check "a variable whose name no shell can export" exits 2 launch -n 2 --env "A;id=1" -- true
stays() { # under nohup it goes on when the terminal is closed
    (trap '' HUP && exec "$zellige" launch --starting-port $((port += 16)) -n 2 -- sh -c 'touch "$0.$MLX_RANK"; sleep 2; echo alive' "$tmp/up") >"$tmp/said" &
    local job=$!
    for _ in $(seq 200); do [ -e "$tmp/up.0" ] && [ -e "$tmp/up.1" ] && break || sleep 0.05; done
    kill -HUP $job
    wait $job && grep -qx '\[1\] alive' "$tmp/said"
}
check "a signal that nohup ignores" stays

unset CUDA_VISIBLE_DEVICES
check "ranks of nccl meet at the first, with a GPU each" says '^\[1\] 1 of 2 at 127.0.0.1:[0-9]+, GPU 1,$' \
    launch --backend nccl -n 2 -- sh -c 'echo $MLX_RANK of $MLX_WORLD_SIZE at $NCCL_HOST_IP:$NCCL_PORT, GPU $CUDA_VISIBLE_DEVICES, $MLX_HOSTFILE'

gpus() { CUDA_VISIBLE_DEVICES=$1 launch --backend nccl -n 2 -- sh -c 'echo GPU $CUDA_VISIBLE_DEVICES'; }
check "of those that are given" says '^\[1\] GPU 7$' gpus 5,7
check "of which there must be enough" says 'rank 1 has no GPU: CUDA_VISIBLE_DEVICES is 5$' exits 1 gpus 5

# The ring of all ranks.
hosts() { launch -n 2 -- sh -c 'cat $MLX_HOSTFILE'; }
check "a file of hosts for the ring" says '127.0.0.1:[0-9]+.*127.0.0.1:[0-9]+' hosts

# By ssh: one that runs the words here, as another machine would.
mkdir "$tmp/bin"
cat >"$tmp/bin/ssh" <<'SSH'
#!/usr/bin/env bash
while [[ $1 == -* ]]; do [ "$1" = -o ] && shift; shift; done
echo "$*" >>"$SSH_LOG"
shift
exec "$@"
SSH
chmod +x "$tmp/bin/ssh"
export SSH_LOG=$tmp/ssh.log
printf '[{"ssh": "node-a", "ips": ["127.0.0.1"]}, {"ssh": "node-b", "ips": ["127.0.0.1"]}]' >"$tmp/hosts.json"
remote() { PATH=$tmp/bin:$PATH launch --hostfile "$tmp/hosts.json" "$@"; }
check "ranks by ssh" says '^\[1\] rank 1 in /$' remote --cwd / -- sh -c 'echo rank $MLX_RANK in $PWD'
check "their failure too" exits 9 remote -- sh -c '[ $MLX_RANK = 1 ] && exit 9; sleep 50'
secret() {
    remote -- sh -c 'echo $ZL_GROUP_TOKEN' >"$tmp/token" && grep -qE '^\[0\] [0-9a-f]{32}$' "$tmp/token" &&
        ! grep -qF "$(sed -n 's/^\[0\] //p' "$tmp/token")" "$SSH_LOG"
}
check "the token is on no command line" secret
signalled() { # SIGNAL: sent to the launcher, reaches ranks on other machines, which save and end with 75
    local job code=0
    rm -f "$tmp"/ready.*
    port=$((port + 16))
    PATH=$tmp/bin:$PATH "$zellige" launch --starting-port $port --hostfile "$tmp/hosts.json" -- \
        bash -c 'trap "echo saved; exit 75" '"$1"'; touch "$0.$MLX_RANK"; while :; do sleep 0.05; done' "$tmp/ready" >"$tmp/said" 2>&1 &
    job=$!
    for _ in $(seq 400); do [ -e "$tmp/ready.0" ] && [ -e "$tmp/ready.1" ] && break || sleep 0.05; done
    kill -"$1" $job
    wait $job || code=$?
    cat "$tmp/said"
    [ $code = 75 ] && grep -q saved "$tmp/said"
}
check "SIGTERM is passed on to them" signalled TERM
check "SIGUSR1 too" signalled USR1

# Files of hosts that ssh or a shell would take for something else.
refused() { # PATTERN TEXT OPTION...: no host is reached
    local pattern=$1
    printf '%s' "$2" >"$tmp/wrong.json"
    : >"$SSH_LOG"
    PATH=$tmp/bin:$PATH says "$pattern" launch --hostfile "$tmp/wrong.json" "${@:3}" -- true && [ ! -s "$SSH_LOG" ]
}
check "an option of ssh as a host" refused "rank 0: '-oProxyCommand=id' is no name of a host" '[{"ssh": "-oProxyCommand=id", "ips": ["10.0.0.1"]}]'
check "in --hosts, too" says "'-oProxyCommand=id' is no name" launch --hosts=-oProxyCommand=id -- true
check "an address with a line feed" refused 'rank 0: its address number 1' "$(printf '[{"ssh": "a", "ips": ["1\nEND_OF_HOSTS\nid"]}]')"
check "a host without addresses" refused 'rank 1 has no address' '[{"ssh": "a", "ips": ["10.0.0.1"]}, {"ssh": "b"}]'
for text in '[{"ssh": "a"} {"ssh": "b"}]' '[{"ssh": "a"},]' '[{"ssh": "a" "ips": []}]' '[{"ssh": "a", "ips": ["1" "2"]}]' '[{"ssh": "a"}] x' '[{"ssh": "a"' '[]'; do
    check "hosts ${text@Q}" refused 'is no file of hosts' "$text"
done
check "a file of hosts that is none" says "is no file of hosts" launch --hostfile /dev/null -- true
finish
