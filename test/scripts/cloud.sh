#!/usr/bin/env bash
# cloud.sh BUILD - `zellige cloud` with test/cloud/sky in SkyPilot's place: tasks, prices, launches that fail, programs of several
# hosts, secrets, pulling from all hosts. No network.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

zellige=$build/zellige
export SKY_FAKE=$tmp/fake PATH=$PWD/test/cloud:$PATH
mkdir -p "$SKY_FAKE" "$tmp/work" && cd "$tmp/work" || exit
cloud() { timeout 120 "$zellige" cloud "$@"; }
asked() { grep -qE -- "$1" "$SKY_FAKE/asked" || { cat "$SKY_FAKE/asked"; return 1; }; }
never() { ! grep -E -- "$1" "$SKY_FAKE/asked"; }
in_task() { grep -qE -- "$1" "$SKY_FAKE/task.yaml" || { cat "$SKY_FAKE/task.yaml"; return 1; }; }
silent_of() { # TEXT COMMAND...: what it prints does not have the text
    ! "${@:2}" 2>&1 | grep -F -- "$1"
}
forget() { rm -f "$SKY_FAKE"/{asked,clusters.json,task.yaml,fails,hosts} .cluster_name; }
printf '%s\n' 'tpu-v6e-8 21.6' 'tpu-v6e-16 43.2' 'H100:8 50' >"$SKY_FAKE/prices"

# Tasks -------------------------------------------------------------------------------------------------------------

renders() { # PATTERN OPTION...: has it on one of the lines of the YAML
    local pattern=$1
    shift
    says "$pattern" cloud launch --render "$@"
}
check "GPUs and nodes" renders '^num_nodes: 2$' --gpus H100:8 --nodes 2 -- ./train
check "of each node" renders '^  accelerators: "H100:8"$' --gpus H100:8 --nodes 2 -- ./train
check "machines that are taken away are a choice" renders '^  use_spot: true$' --gpus H100 --spot -- ./train
on_demand() { ! cloud launch --render --gpus H100 -- ./train | grep use_spot; }
check "and no default" on_demand
check "processors" renders '^  cpus: 8\+$' --cpus 8+ -- ./train
check "commands before it may begin with spaces" renders '^setup: \|2$' --setup '  make' -- ./train
check "a bucket" renders '^    source: "gs://name/part"$' --mount /data=gs://name/part -- ./train
check "a variable" renders '^  WORDS: "a \\"b\\""$' --env 'WORDS=a "b"' -- ./train
check "words of the program stay words" renders "^  'sh' '-c' 'echo \"it'\\\\''s\"'\$" -- sh -c "echo \"it's\""
check "an option of the program is its own" renders "'--nodes' '3'" -- ./train --nodes 3
refuses() { # PATTERN OPTION...: with code 1, and asks SkyPilot for nothing
    local pattern=$1
    shift
    says "$pattern" exits 1 cloud launch --render "$@"
}
for name in tpu-v4-8 tpu-v4-16 tpu-v4-384 tpu-v4-6144 tpu-v5p-12288 tpu-v6e-256 tpu-v3-64 tpu-v5litepod-1; do
    check "$name" renders "accelerators: \"$name\"" --gpus $name -- ./train
done
for name in tpu-v4-4 tpu-v4-100 tpu-v4-6272 tpu-v5p-9 tpu-v5p-192 tpu-v5p-12416 tpu-v5p-08 tpu-v5p-128000; do
    check "$name is refused" refuses "$name" --gpus $name -- ./train
done
check "a slice knows its hosts" renders '^  ZL_TPU_HOSTS: "4"$' --gpus tpu-v6e-16 -- ./train
check "v5p-128 has 16 of them" renders '^  ZL_TPU_HOSTS: "16"$' --gpus tpu-v5p-128 -- ./train
alone() { ! cloud launch --render --gpus tpu-v6e-8 -- ./train | grep -E 'ZL_TPU_HOSTS|MASTER_ADDR|TOKEN'; }
check "one host has nobody to know" alone
check "several slices are refused" refuses 'one node' --gpus tpu-v6e-16 --nodes 2 -- ./train
check "a colon without a count" refuses 'H100:8' --gpus H100: -- ./train
check "a bucket without a scheme" refuses 'PATH=BUCKET' --mount /data=name -- ./train
check "letters that YAML would take for others" refuses 'cannot be printed' -- "$(printf 'a\033[2J')"
check "a carriage return" refuses 'can be printed' --env "$(printf 'A=b\rc')" -- ./train

# Prices ------------------------------------------------------------------------------------------------------------

launch=(cloud launch --gpus tpu-v6e-8)
answer() { echo "$1" | "${@:2}"; }
forget
check "the price is shown" says 'zl-v6e-8: tpu-v6e-8:1 at GCP \(us-east5-b\), \$21\.60 per hour' answer n "${launch[@]}" -- ./train
check "and the answer no" exits 1 answer n "${launch[@]}" -- ./train
check "or none is no launch" exits 1 "${launch[@]}" -- ./train </dev/null
check "SkyPilot was asked for plans alone" never '^launch -y'
check "no name is kept" test ! -e .cluster_name
check "the answer yes is one" answer y "${launch[@]}" -- ./train
check "which ends by itself" asked '^launch -y -i 30 --down -c zl-v6e-8 '
forget
check "a price above --max-price" says '\$21.60 per hour is more than --max-price 21.5' exits 1 "${launch[@]}" --yes --max-price 21.5 -- ./train
check "is no launch, whatever --yes says" never '^launch -y'
check "a price of all nodes" says '\$100.00 per hour is more' exits 1 cloud launch --gpus H100:8 --nodes 2 --yes --max-price 99 -- ./train
check "no price, though one is the most" says 'knows no price' exits 1 cloud launch --gpus A100 --yes --max-price 99 -- ./train
check "a price below --max-price" "${launch[@]}" --yes --max-price 22 -- ./train
check "holds where it was" in_task 'infra: "gcp/\*/us-east5-b"'
forget
echo 'Kubernetes (me@my.context)' >"$SKY_FAKE/place"
check "where a place is no zone, too" "${launch[@]}" --yes --max-price 22 -- ./train
check "it is whole" in_task 'infra: "kubernetes/me@my.context"'
forget
echo 'Some Cloud (x y)' >"$SKY_FAKE/place"
check "a place that is not understood" says "at 'Some Cloud \(x y\)' alone: name a cloud" exits 1 "${launch[@]}" --yes --max-price 22 -- ./train
check "is no launch" never '^launch -y'
check "unless a region is given" "${launch[@]}" --infra gcp/us-east5 --yes --max-price 22 -- ./train
check "where it stays" in_task 'infra: "gcp/us-east5"'
rm "$SKY_FAKE/place"
forget
check "minutes without a job" cloud launch --gpus tpu-v6e-8 --yes --idle 5 -- ./train
check "are SkyPilot's" asked '^launch -y -i 5 --down -c zl-v6e-8 '
check "another launch of the same runs on it" says 'zl-v6e-8 is up: running there' "${launch[@]}" -- ./other
check "by exec" asked '^exec zl-v6e-8 '
check "what costs money" says 'zl-v6e-8 +UP +.*\$21.60 per hour, removed after 5 idle minutes' cloud status
status_has() { cloud status --json | python3 -c "import json, sys; d = json.load(sys.stdin)[0]; sys.exit(not ($1))"; }
check "as JSON" status_has 'd["name"] == "zl-v6e-8" and d["hosts"] == 1 and abs(d["dollars_per_hour"] - 21.6) < 1e-9 and d["idle_minutes"] == 5'

# Launches that fail, and the end -----------------------------------------------------------------------------------

forget
touch "$SKY_FAKE/fails"
check "a launch that fails" exits 1 "${launch[@]}" --yes -- ./train
check "says what is left, and costs" says 'zl-v6e-8 +INIT .*\$21.60 per hour' "${launch[@]}" --yes -- ./train
check "and how it goes" says 'zellige cloud down zl-v6e-8.*removes it' "${launch[@]}" --yes -- ./train
check "down asks" exits 1 cloud down </dev/null
check "and removes nothing without an answer" never '^down'
check "down" cloud down --yes
check "is SkyPilot's" asked '^down -y zl-v6e-8$'
check "the name is forgotten" test ! -e .cluster_name
check "nothing is left" says '^no clusters$' cloud status
check "down of nothing" says 'a file .cluster_name' exits 1 cloud down --yes
check "of what is no name" exits 2 cloud down --yes -- '-x'
without_sky() { PATH=/usr/bin:/bin "$@"; }
check "no SkyPilot" says 'there is no program sky' without_sky "$zellige" cloud status

# On the cluster ----------------------------------------------------------------------------------------------------

forget
check "exec on no cluster" says 'a file .cluster_name' exits 1 cloud exec -- true
check "a cluster that is not up" says 'zl-none is not up' exits 1 cloud exec --name zl-none -- true
check "two nodes" cloud launch --gpus H100:8 --nodes 2 --yes -- true
check "exec brings the folder first" cloud exec -- ./train --nodes 3
check "with its own words" in_task "'./train' '--nodes' '3'"
check "it is a task with a folder" in_task '^workdir: "\."$'
check "on both nodes" in_task '^num_nodes: 2$'
check "and on the GPUs" in_task '^  accelerators: "H100:8"$'
check "sync" cloud sync
check "is an exec of nothing" asked '^exec zl-H100-8 --workdir \. -- true$'
check "of another folder" cloud sync "$tmp/work"
check "too" asked "^exec zl-H100-8 --workdir $tmp/work -- true\$"
check "logs" says 'did logs zl-H100-8 3 --no-follow' cloud logs 3 --no-follow
check "of no number" exits 1 cloud logs x

# Programs run here, in the place of two hosts.
echo 2 >"$SKY_FAKE/hosts"
ranks() { cloud exec -- sh -c 'echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR, $MASTER_PORT'; }
check "hosts have a rank" says '^rank 1 of 2 at 127.0.0.1, [0-9]+$' ranks
same_port() { [ "$(ranks | cut -d , -f 2 | sort -u | wc -l)" = 1 ]; }
check "and meet at one port" same_port
sum() { awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$root/doc/scale.md" >sum.c &&
    ${CC:-cc} -std=c11 -I"$root/include" sum.c -o sum -L"$build" -lzellige -Wl,-rpath,"$build" && cloud exec -- ./sum; }
check "a group, by the token that is a secret" says '^rank 1 of 2: the sum is 3$' sum
check "what fails there fails here" exits 100 cloud exec -- sh -c '[ $RANK = 0 ]'

# A slice: which host has which part of it is not SkyPilot's order, but that of its metadata.
mkdir "$tmp/bin"
cat >"$tmp/bin/curl" <<'END'
#!/bin/sh
for word in "$@"; do url=$word; done
case $url in
*/agent-worker-number) echo $((3 - SKYPILOT_NODE_RANK)) ;;
*/worker-network-endpoints) [ -e "$SKY_FAKE/alone" ] || printf 'a:b:10.0.0.4,a:b:10.0.0.5,a:b:10.0.0.6,a:b:10.0.0.7' ;;
esac
END
chmod +x "$tmp/bin/curl"
forget
echo 4 >"$SKY_FAKE/hosts"
slice() { PATH=$tmp/bin:$PATH "$@"; }
show='echo $TPU_WORKER_ID of $TPU_WORKER_HOSTNAMES is $RANK of $WORLD_SIZE at $MASTER_ADDR'
check "tpu-v6e-16 has four hosts that know each other" \
    says '^2 of 10.0.0.4,10.0.0.5,10.0.0.6,10.0.0.7 is 2 of 4 at 10.0.0.4$' slice cloud launch --gpus tpu-v6e-16 --yes -- sh -c "$show"
check "and in exec, too" says '^0 of 10.0.0.4,10.0.0.5,10.0.0.6,10.0.0.7 is 0 of 4' slice cloud exec -- sh -c "$show"
touch "$SKY_FAKE/alone"
check "hosts that do not know are an error" says 'a slice of 4 hosts' slice cloud exec -- sh -c "$show"
rm "$SKY_FAKE/alone" "$SKY_FAKE/hosts"

# Secrets -----------------------------------------------------------------------------------------------------------

forget
echo 2 >"$SKY_FAKE/hosts"
export HF_TOKEN=hf_abcdef
tell='echo $HF_TOKEN $ZL_GROUP_TOKEN'
check "a secret reaches the program" says '^hf_abcdef [0-9a-f]{32}$' cloud launch --nodes 2 --yes --secret HF_TOKEN -- sh -c "$tell"
told() { cloud exec --secret HF_TOKEN -- sh -c "$tell" | sort -u >"$tmp/told" && [ "$(wc -l <"$tmp/told")" = 1 ]; }
check "all hosts have one token" told
no_trace() { ! grep -rE "hf_abcdef|$(cut -d ' ' -f 2 "$tmp/told")" "$SKY_FAKE" "$tmp/work"; }
check "no file and no command line has either" no_trace
check "SkyPilot is told names" asked '^launch .*--secret HF_TOKEN --secret ZL_GROUP_TOKEN$'
check "and finds them in the task" in_task '^  HF_TOKEN: null$'
check "a value on the command line is refused" says 'a name alone' exits 1 cloud exec --secret HF_TOKEN=hf_abcdef -- true
check "and not repeated" silent_of hf_abcdef cloud exec --secret HF_TOKEN=hf_abcdef -- true
check "a token as a variable is refused" says 'use --secret HF_TOKEN' exits 1 cloud launch --render --env HF_TOKEN=hf_abcdef -- true
check "in small letters, too" says 'use --secret hf_token' exits 1 cloud launch --render --env hf_token=hf_abcdef -- true
check "a secret that there is not" says 'no such variable' exits 1 cloud exec --secret NOT_THERE -- true
rm "$SKY_FAKE/hosts"

# Managed jobs ------------------------------------------------------------------------------------------------------

forget
check "a managed job" cloud launch --gpus H100:8 --spot --managed --name train --yes --mount /out=gs://name -- ./train
check "is SkyPilot's" asked '^jobs launch -y -d -n train /tmp/'
check "is planned first" asked '^launch --dryrun -y -c train /tmp/'
check "is no cluster of this folder" test ! -e .cluster_name
check "its price is a limit, too" exits 1 cloud launch --gpus H100:8 --managed --yes --max-price 1 -- ./train
check "its logs" says 'did jobs logs -n train' cloud logs --managed --name train
check "by number" says 'did jobs logs 7' cloud logs --managed 7
check "its end" says 'did jobs cancel -y -n train' cloud down --managed --yes train
check "the queue" says 'did jobs queue' cloud status --managed
touch "$SKY_FAKE/fails"
check "a job that fails leaves a controller" says 'sky-jobs-controller-1 +INIT' cloud launch --gpus H100:8 --managed --yes -- ./train
check "and may have begun" says 'down --managed zl-H100-8. ends it' cloud launch --gpus H100:8 --managed --yes -- ./train

# Home again --------------------------------------------------------------------------------------------------------

cat >"$tmp/bin/rsync" <<'END'
#!/usr/bin/env bash
echo "$@" >>"$SKY_FAKE/rsynced"
from=${*: -2:1}
case $from in *worker2*) exit 12 ;; esac
echo "${from%%:*}" >"${*: -1}/result"
END
chmod +x "$tmp/bin/rsync"
forget
cloud launch --gpus H100:8 --nodes 2 --yes -- true >/dev/null 2>&1
check "pull from two nodes" slice cloud pull results
check "has a folder of each" sh -c '[ "$(cat results/node-0/result) $(cat results/node-1/result)" = "zl-H100-8 zl-H100-8-worker1" ]'
check "by rsync" grep -qx -- '-rt -- zl-H100-8-worker1:sky_workdir/results/ results/node-1/' "$SKY_FAKE/rsynced"
check "runs, too" says '^0 new runs in runs/node-1$' slice cloud pull
check "of a folder outside" exits 1 slice cloud pull ../../etc
forget
cloud launch --gpus tpu-v6e-16 --yes -- true >/dev/null 2>&1
check "a host that fails is said" says 'could not bring zl-v6e-16-worker2' exits 1 slice cloud pull results --out slice
check "and the others come home" sh -c 'test -s slice/node-0/result && test -s slice/node-1/result && test -s slice/node-3/result'
forget
cloud launch --gpus tpu-v6e-8 --yes -- true >/dev/null 2>&1
check "one host needs no folder of its own" slice cloud pull results --out single
check "as it is" test -s single/result
finish
