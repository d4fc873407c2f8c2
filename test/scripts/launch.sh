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

check "ranks of nccl meet at the first, with a GPU each" says '^\[1\] 1 of 2 at 127.0.0.1:[0-9]+, GPU 1,$' \
    launch --backend nccl -n 2 -- sh -c 'echo $MLX_RANK of $MLX_WORLD_SIZE at $NCCL_HOST_IP:$NCCL_PORT, GPU $CUDA_VISIBLE_DEVICES, $MLX_HOSTFILE'

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
check "a file of hosts that is none" says "is no file of hosts" launch --hostfile /dev/null -- true
finish
