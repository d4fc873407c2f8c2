#!/usr/bin/env bash
# mesh.sh BUILD - `zellige train` on several ranks: the losses of one rank on meshes of ring and mpi, signals that end a training which goes on
# to the same bits, what is refused, and what a rank reads. ZL_LONG=1 trains epochs on meshes of 1 to 8 ranks, and, as root, shapes a
# link between two network namespaces to see that gradients are sent during the backward pass.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

zellige=$build/zellige
export ZL_CACHE_DIR=$tmp/cache ZL_GROUP_TIMEOUT=120
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # Open MPI refuses root otherwise
port=$((20000 + RANDOM % 20000))
ranks() { # N COMMAND...: of a ring
    local n=$1
    shift
    port=$((port + 16))
    timeout 300 "$zellige" launch --starting-port $port -n "$n" -- "$zellige" "$@"
}
mpi_ranks() { # N COMMAND...
    local n=$1
    shift
    timeout 600 "$zellige" launch --backend mpi -n "$n" -- "$zellige" "$@"
}
for _ in $(seq 60); do echo "a rose is a rose is a rose, and so on and on."; done >"$tmp/text.txt"
lm=(train lm "$tmp/text.txt" --width 16 --layers 1 --heads 2 --context 16 --batch 12 --tested 12 --rate 0.02 --every 10)
agree() { # BOUND FILE...: the same losses in all files
    python3 - "$@" <<'PY'
import re, sys
rows = [[float(x) for x in re.findall(r'"(?:held_out_)?loss": ([0-9.e-]+)', open(f).read())] for f in sys.argv[2:]]
far = max(abs(a - b) for row in rows[1:] for a, b in zip(row, rows[0]))
print("apart", far)
sys.exit(0 if rows[0] and all(len(r) == len(rows[0]) for r in rows) and far <= float(sys.argv[1]) else 1)
PY
}

wide=("${lm[@]}" --dtype f64 --steps 20 --json)
"$zellige" "${wide[@]}" >"$tmp/one.txt"
ranks 2 "${wide[@]}" --mesh fsdp=2 --bucket 4000 >"$tmp/fsdp.txt"
check "fsdp=2 has the losses of one rank" agree 1e-10 "$tmp/one.txt" "$tmp/fsdp.txt"
if "$zellige" launch --backend mpi -n 1 -- true >/dev/null 2>&1 && command -v mpirun >/dev/null; then
    mpi_ranks 4 "${wide[@]}" --mesh data=2,tensor=2 --mixer attention >"$tmp/mpi.txt"
    "$zellige" "${wide[@]}" --mixer attention >"$tmp/alone.txt"
    check "data=2,tensor=2 over mpi" agree 1e-10 "$tmp/alone.txt" "$tmp/mpi.txt"
else
    skip "data=2,tensor=2 over mpi" "there is no mpirun"
fi

small=("${lm[@]}" --steps 150 --mixer attention --mesh fsdp=2)
whole() { ranks 2 "${small[@]}" --checkpoint "$tmp/whole.safetensors"; }
check "a training with a checkpoint of two files" exits 0 whole
check "which are beside the index" test "$(ls "$tmp"/whole.*-of-2.safetensors | wc -l)" = 2
stops() { # SIGNAL: sent to the launcher once training has begun; then resumed to the same shards
    local port_now code=0
    rm -f "$tmp"/cut*
    port=$((port + 16)) port_now=$port
    "$zellige" launch --starting-port $port_now -n 2 -- "$zellige" "${small[@]}" --checkpoint "$tmp/cut.safetensors" >"$tmp/said" 2>&1 &
    local job=$!
    for _ in $(seq 600); do [ -s "$tmp/cut.safetensors" ] && break || sleep 0.02; done
    kill -"$1" $job
    wait $job || code=$?
    cat "$tmp/said"
    [ $code = 75 ] || { echo "exit code $code"; return 1; }
    grep -q 'stopped by a signal: .*cut.safetensors has [0-9]* steps, with --resume it goes on' "$tmp/said" || return
    ranks 2 "${small[@]}" --checkpoint "$tmp/cut.safetensors" --resume || return
    for part in 1 2; do cmp "$tmp"/cut.*.$part-of-2.safetensors "$tmp"/whole.*.$part-of-2.safetensors || return; done
    [ "$(ls "$tmp"/cut.* | wc -l)" = 3 ]
}
small+=(--every 5)
check "SIGTERM: saved, and resumed to the same bits" stops TERM
check "SIGUSR1 too" stops USR1
check "one rank goes on with what two wrote" exits 0 "$zellige" "${small[@]:0:$((${#small[@]} - 4))}" --checkpoint "$tmp/whole.safetensors" --resume
check "and so do three" exits 0 ranks 3 "${lm[@]}" --steps 155 --mixer attention --mesh fsdp=3 --checkpoint "$tmp/whole.safetensors" --resume
files() { ls "$tmp"/whole.*-of-3.safetensors && ! ls "$tmp"/whole.*-of-2.safetensors; }
check "whose index names other files" files

check "a mesh that does not fit the group" says 'the mesh fsdp=3 has 3 places, and the group \(ring\) 2 ranks' ranks 2 "${lm[@]}" --mesh fsdp=3
check "a mesh of one process" says 'the mesh data=2 has 2 places, and the group \(none\) 1 ranks' "$zellige" "${lm[@]}" --mesh data=2
check "axes that are none" says "the mesh 'data=2,fast=2' is not understood" "$zellige" "${lm[@]}" --mesh data=2,fast=2
check "a ring and several axes" says 'which the engine ring cannot: mpi and nccl can' ranks 4 "${lm[@]}" --mesh data=2,tensor=2
check "a batch that does not divide" says 'a batch of 7 does not divide by the 2 ranks' ranks 2 "${lm[@]}" --batch 7 --mesh data=2
check "heads that do not divide" says '2 heads, .* on tensor=4' ranks 4 "${lm[@]}" --mesh tensor=4
check "an axis that does not divide" says 'mlp.gate.weight is \(33, 16\), whose axis 0 does not divide by tensor=2' ranks 2 "${lm[@]}" --ffn 33 --mesh tensor=2

[ -n "${ZL_LONG:-}" ] || finish

# Long: a whole epoch -------------------------------------------------------------------------------------------------------

images() { # N FOLDER: so many random images with labels that follow from them, and 200 to test
    python3 - "$@" <<'PY'
import os, random, struct, sys
random.seed(5)
os.makedirs(sys.argv[2], exist_ok=True)
for kind, n in (("train", int(sys.argv[1])), ("t10k", 200)):
    labels = [random.randrange(10) for _ in range(n)]
    with open(f"{sys.argv[2]}/{kind}-images-idx3-ubyte", "wb") as f:
        f.write(struct.pack(">IIII", 0x803, n, 28, 28))
        for label in labels:
            pixels = bytearray(random.randbytes(784))
            pixels[70 * label:70 * label + 60] = bytes([255]) * 60
            f.write(pixels)
    with open(f"{sys.argv[2]}/{kind}-labels-idx1-ubyte", "wb") as f:
        f.write(struct.pack(">II", 0x801, n) + bytes(labels))
PY
}
images 1920 "$tmp/images"
mnist=(train mnist --data "$tmp/images" --hidden "64,64,32" --batch 96 --epochs 1 --json)
for dtype in f32 f64; do
    "$zellige" "${mnist[@]}" --dtype $dtype >"$tmp/epoch-$dtype-one.txt"
    for mesh in data=2 fsdp=4 data=2,tensor=2 data=2,fsdp=2,tensor=2; do
        n=1
        for size in ${mesh//[^0-9]/ }; do n=$((n * size)); done
        mpi_ranks $n "${mnist[@]}" --dtype $dtype --mesh $mesh >"$tmp/epoch-$dtype-$mesh.txt"
    done
done
check "an epoch on 1, 2, 4 and 8 ranks, in f32" agree 1e-4 "$tmp"/epoch-f32-*.txt
check "and in f64" agree 1e-10 "$tmp"/epoch-f64-*.txt

# Long: sending during the backward pass ----------------------------------------------------------------------------------------

shape() { # two namespaces with a link between them
    ip netns add "$ns-0" && ip netns add "$ns-1" &&
        ip link add "$ns-0" netns "$ns-0" type veth peer name "$ns-1" netns "$ns-1" || return
    for i in 0 1; do
        ip -n "$ns-$i" addr add 10.77.0.$i/31 dev "$ns-$i" && ip -n "$ns-$i" link set "$ns-$i" up && ip -n "$ns-$i" link set lo up || return
    done
}
unshape() {
    ip netns del "$ns-0"
    ip netns del "$ns-1"
} 2>/dev/null
ns=zl$$
if [ "$(id -u)" != 0 ] || ! command -v tc >/dev/null || ! shape 2>/dev/null; then
    skip "gradients are sent during the backward pass" "this needs root, network namespaces and tc"
    unshape
    finish
fi
trap 'unshape; rm -rf "$tmp"' EXIT
images 8192 "$tmp/many"
deep=(train mnist --data "$tmp/many" --hidden "1024,1024,1024,1024,1024,1024" --optimizer sgd --json)
both() { # FILE OPTIONS...: rank 0's output; ranks in namespaces of their own
    local file=$1
    shift
    printf '[["10.77.0.0:5001"], ["10.77.0.1:5001"]]' >"$tmp/hosts.json"
    for i in 1 0; do
        ZL_THREADS=1 MLX_RANK=$i MLX_HOSTFILE=$tmp/hosts.json ip netns exec "$ns-$i" "$zellige" "${deep[@]}" "$@" >"$file.$i" &
    done
    wait
}
seconds() { # FILE STEPS: per step of the second epoch
    python3 -c "import json, sys; print(json.loads(open('$1.0').read().splitlines()[1])['seconds'] / $2)"
}
# 4 steps per epoch on a rank, with the rows of one rank of two, alone and together.
overlaps() {
    both "$tmp/still" --batch 1024 --epochs 2
    local still rate code
    still=$(seconds "$tmp/still" 8)
    # Bytes of gradients over the backward pass, two thirds of a step.
    rate=$(python3 -c "print(int(8 * 4 * (785 * 1024 + 5 * 1025 * 1024 + 10250) / ($still * 2 / 3)))")
    for i in 0 1; do tc -n "$ns-$i" qdisc replace dev "$ns-$i" root tbf rate "$rate" burst 256kb latency 500ms || return; done
    both "$tmp/sent" --batch 2048 --epochs 2 --mesh data=2
    both "$tmp/late" --batch 2048 --epochs 2 --mesh data=2 --bucket 1000000000
    python3 -c "
import sys
still, sent, late = $still, $(seconds "$tmp/sent" 4), $(seconds "$tmp/late" 4)
print('a step: %.3f s, with sending %.2f times that, where all is sent behind the backward pass %.2f times' % (still, sent / still, late / still))
sys.exit(0 if sent / still <= 1.25 and late / still > 1.4 else 1)" >"$tmp/figures"
    code=$?
    cat "$tmp/figures"
    return $code
}
overlaps_once() { for _ in 1 2 3; do overlaps && return; done; return 1; } # others may use the machine
check "gradients are sent during the backward pass" overlaps_once
cat "$tmp/figures"
finish
