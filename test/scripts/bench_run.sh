#!/usr/bin/env bash
# bench_run.sh BUILD - `zellige bench run`: tables, run folders, exit codes, and that kill -9 loses at most the
# configuration that is running.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

zellige=$build/zellige
if ! "$zellige" bench devices >/dev/null 2>&1; then
    skip "runs" "$("$zellige" bench devices 2>&1 | head -n 1)"
    finish
fi
quick=(--seconds 0.01 --samples 5)

cat >"$tmp/small.json" <<'END'
{"name": "small", "items": [
  {"work": "gemm", "dtypes": ["f32", "bf16", "tf32"], "sizes": [64, [32, 64, 96]]},
  {"work": "view", "ops": ["transpose"]},
  {"work": "bandwidth", "sizes": ["64K"]}]}
END
run() { "$zellige" bench run "$tmp/small.json" "${quick[@]}" --out "$tmp/runs" "$@"; }
last() { find "$tmp/runs" -mindepth 1 -maxdepth 1 -type d | sort | tail -n 1; }
metrics() { # PYTHON-CONDITION: on the last run's metrics d and its rows by id, r
    python3 -c "
import json, sys
d = json.load(open(sys.argv[1]))
r = {row['id']: row for row in d['rows']}
sys.exit(0 if ($1) else repr({k: (v['status'], v['note']) for k, v in r.items()}))" "$(last)/metrics.json"
}

check "a suite runs" exits 0 run --notes "first run"
check "all rows are there" metrics "len(r) == 8 and d['status'] == 'complete'"
check "what there is no dtype for is a row that says so" metrics "r['gemm/tf32/64']['status'] == 'absent' and 'tf32' in r['gemm/tf32/64']['note']"
check "samples are kept" metrics "len(r['gemm/f32/64']['samples_s']) == 5"
check "peaks and their source are kept" metrics "d['subject']['peaks']['f32']['source'].startswith('measured') and d['subject']['peaks']['f32']['rate'] > 1e9"
check "the command and the notes are kept" metrics "'--samples 5' in d['command'] and d['notes'] == 'first run'"
check "steal and load are recorded" metrics "all(row['load'] is not None for row in r.values())"
check "the table has a row for each" says '^gemm/bf16/32x64x96 .*FLOP/s' run
check "--only takes some" exits 0 run --only view
check "and leaves the others" metrics "list(r) == ['view.transpose/f32']"
check "--only of nothing" exits 2 run --only no_such_work
is_json() { "$@" | python3 -c 'import json, sys; json.load(sys.stdin)'; }
check "--json prints the run" is_json run --json
check "the CSV has all columns in all lines" python3 -c "
import csv, sys
rows = list(csv.reader(open(sys.argv[1], newline='')))
sys.exit(0 if len(rows) == 9 and len({len(r) for r in rows}) == 1 else repr(rows))" "$(last)/results.csv"
modelled() { ZL_BM1690=emulator "$zellige" bench run tile --device bm1690 --only "$1" --out "$tmp/modelled"; }
check "tile kernels run on a chip that is modelled, and the table says so" says '^tile.matmul/f16/1024 .*% +modelled$' modelled matmul/f16/1024
check "its metrics say so too, and nothing is above a peak" python3 -c "
import json, glob, sys
d = json.load(open(sorted(glob.glob(sys.argv[1] + '/modelled/2*/metrics.json'))[-1]))
row, s = d['rows'][0], d['subject']
good = s['is_modelled'] and row['clock'] == 'model' and row['status'] == 'ok' and 0 < row['utilisation'] < 1 and row['rate'] <= row['limit'] and 'tpu_mlir' in s['peaks']['f16']['source']
sys.exit(0 if good else repr((s, row)))" "$tmp"
check "so do the page, the table and the CSV" bash -c "grep -q 'All times are modelled' '$tmp'/modelled/2*/report.html && grep -q 'modelled: no chip ran this' '$tmp'/modelled/2*/results.md && grep -q ',modelled' '$tmp'/modelled/2*/results.csv"
printf '{"name": "small", "items": [{"work": "gemm", "sizes": [64]}, {"work": "tile", "ops": ["matmul"], "dtypes": ["f32"], "sizes": [64]}]}' >"$tmp/both.json"
check "what needs a device of arrays is absent there" says 'gemm/f32/64 .*absent: bm1690 runs tile kernels alone' "$zellige" bench run "$tmp/both.json" --device bm1690 --out "$tmp/modelled"
check "on the CPU the same work is measured" says '^tile.matmul/f32/64 .*FLOP/s' "$zellige" bench run "$tmp/both.json" "${quick[@]}" --device cpu --out "$tmp/measured"
check "times of a model are not compared with a clock's" says 'other chips|of a clock and of a model' "$zellige" bench compare "$(find "$tmp/measured" -mindepth 1 -maxdepth 1 -type d)" "$(find "$tmp/modelled" -mindepth 1 -maxdepth 1 -type d | sort | tail -n 1)"
check "the environment is kept" python3 -c "
import json, sys
d = json.load(open(sys.argv[1]))
sys.exit(0 if d['system'] and any(x['device'] == 'cpu' for x in d['devices']) else repr(d))" "$(last)/env.json"
logged() { # a line for the start, the chip, each row and the end
    local log
    log=$(last)/log.txt
    grep -qE '^20[0-9-]+T[0-9:]+Z started: zellige bench run ' "$log" && grep -q ' chip ' "$log" &&
        [ "$(grep -cE ' (gemm|view|bandwidth)[^ ]*: (ok|absent), ' "$log")" = 8 ] && tail -n 1 "$log" | grep -q 'complete: 8 rows$' || { cat "$log"; return 1; }
}
check "the log tells what happened when" logged
check "the Markdown table is there" grep -q '^| gemm/f32/64 |' "$(last)/results.md"
if ZL_DEVICE=cpu "$zellige" devices | grep -q '^opencl *0'; then
    check "the device's own clock tells the time" says '^gemm/f32/64 .*FLOP/s.* by the device.s clock' run --device opencl --clock device --only gemm/f32/64
    check "the metrics say so" metrics "r['gemm/f32/64']['clock'] == 'device' and r['gemm/f32/64']['median_s'] > 0"
    check "and the CSV" grep -q ',measured,device' "$(last)/results.csv"
    device=$(last)
    check "the host's clock tells another one" exits 0 run --device opencl --clock host --only gemm/f32/64
    check "the metrics say that too" metrics "r['gemm/f32/64']['clock'] == 'host'"
    check "the two are not compared" says 'times of other clocks: device and host' "$zellige" bench compare "$device" "$(last)"
else
    skip "the device's own clock" "there is no OpenCL device: install pocl-opencl-icd"
fi
check "the CPU has no other clock" says 'gemm/f32/64 .*failed: the device does not tell when its work ran' run --device cpu --clock device --only gemm/f32/64
check "an unknown clock" exits 2 run --clock sundial
check "the device's clock and empty caches" exits 2 run --clock device --wipe-cache
check "a peak that is too low makes rows suspect, and the exit code says so" exits 4 run --only gemm/f32 --peak f32=0.000001
check "the row says why" metrics "'--peak f32=1e-06' in r['gemm/f32/64']['note']"
check "an unknown suite" exits 2 "$zellige" bench run no_such_suite --out "$tmp/runs"
check "an unknown device" exits 1 "$zellige" bench run --device abacus --out "$tmp/runs"
check "and what there is" says 'no device "abacus"; there are: cpu, cuda' "$zellige" bench run --device abacus --out "$tmp/runs"
check "samples of none" exits 2 run --samples 0
check "samples that are no number" says '^zellige bench run: --samples 5x: wanted a number, from 1 to' run --samples 5x
check "half a sample" says 'wanted a whole number' run --samples 1.5
check "negative seconds" exits 2 run --seconds -1
check "a negative budget" says '^zellige bench search: --budget -5: wanted a number, 0 or more' "$zellige" bench search --budget -5
check "a sysroot that is not there" exits 2 "$zellige" bench devices --sysroot "$tmp/none"
echo '{"items": [{"work": "gemm", "sizes": [{"from": 0, "to": 64, "times": 2}]}]}' >"$tmp/endless.json"
check "a range that never ends" exits 2 timeout 60 "$zellige" bench run "$tmp/endless.json" --out "$tmp/runs"
echo '{"items": [{"work": "gemm", "sizes": [[2, 3]]}, {"work": "gemm", "sizes": [8]}]}' >"$tmp/bad.json"
check "a configuration that fails is a row, and the rest goes on" exits 1 "$zellige" bench run "$tmp/bad.json" "${quick[@]}" --out "$tmp/runs"
check "its error is in the row" metrics "'m, n, k' in r['gemm/f32/2x3']['note'] and r['gemm/f32/8']['status'] == 'ok'"

# Devices beside the best one of a chip: without a chip of the table, and with one of the name that the device gives.
export VK_DRIVER_FILES=$build/fake/vulkan.json # lavapipe, without instructions that a virtual machine may hide
for device in opencl vulkan; do
    if ! "$zellige" devices | grep -q "^$device *0"; then
        skip "the device $device" "it is not here"
        continue
    fi
    echo '{"items": [{"work": "gemm", "sizes": [64]}, {"work": "mlp", "sizes": [[32, 16]]}]}' >"$tmp/other.json"
    check "$device without a known chip" exits 0 "$zellige" bench run "$tmp/other.json" --device $device "${quick[@]}" --out "$tmp/runs"
    check "its peaks are not known" metrics "d['subject']['chip'] == '' and r['gemm/f32/64']['utilisation'] is None"
    check "all of a training step runs there" metrics "r['mlp/f32/32x16']['status'] == 'ok'"
    "$zellige" devices --json | python3 -c "
import json, sys
model = next(d['model'] for d in json.load(sys.stdin) if d['device'] == '$device')
chip = {'id': 'named', 'vendor': 'none', 'name': model, 'kind': 'gpu', 'peak_tflops': {'f32': 1000}, 'memory': {'bandwidth_gbs': 1000},
        'devices_per_chip': 1, 'detect': {'nvml_names': [model]}}
table = json.load(open('$root/cli/bench/hw_specs.json'))
table['chips'] = [chip]
json.dump(table, sys.stdout)" >"$tmp/specs.json"
    check "$device on a chip of the table" exits 0 "$zellige" bench run "$tmp/other.json" --device $device --specs "$tmp/specs.json" "${quick[@]}" --out "$tmp/runs"
    check "it has the peaks of the table" metrics "d['subject']['chip'] == 'named' and 0 < r['gemm/f32/64']['utilisation'] < 1"
done

# kill -9 in the middle: what the journal has is not measured again.
python3 - >"$tmp/long.json" <<'END'
import json
print(json.dumps({"name": "long", "items": [{"work": "gemm", "sizes": list(range(16, 136, 4))}]}))
END
"$zellige" bench run "$tmp/long.json" --seconds 0.1 --samples 50 --out "$tmp/killed" >"$tmp/killed.txt" 2>&1 &
victim=$!
for _ in $(seq 600); do
    [ "$(cat "$tmp"/killed/*/journal.jsonl 2>/dev/null | wc -l)" -ge 3 ] && break
    sleep 0.05
done
kill -9 $victim
wait $victim 2>/dev/null
folder=$(echo "$tmp"/killed/*)
seen=$(grep -c '^gemm' "$tmp/killed.txt") written=$(wc -l <"$folder/journal.jsonl")
lost_nothing() { [ "$written" -ge 3 ] && [ "$written" -lt 30 ] && [ "$written" -ge "$seen" ] || { echo "$seen shown, $written written"; return 1; }; }
check "kill -9 loses nothing that was shown" lost_nothing
cp "$folder/journal.jsonl" "$tmp/before.jsonl"
printf '%s' '{"id": "gemm/f32/20", "work": "ge' >>"$folder/journal.jsonl" # as if it had been killed while it wrote
check "it is not resumed on other terms" exits 2 "$zellige" bench run "$tmp/long.json" --zeros --resume "$folder"
check "a killed run can be resumed" exits 0 "$zellige" bench run "$tmp/long.json" --seconds 0.01 --samples 5 --resume "$folder"
resumed() { # the old lines as they were, every configuration once
    head -n "$written" "$folder/journal.jsonl" | diff - "$tmp/before.jsonl" &&
        python3 -c "
import json, sys
d = json.load(open(sys.argv[1]))
ids = [r['id'] for r in d['rows']]
sys.exit(0 if d['status'] == 'complete' and len(ids) == len(set(ids)) == 30 else repr(ids))" "$folder/metrics.json"
}
check "what was measured before is not measured again" resumed
whole() { python3 -c "
import json, sys
def reads(line):
    try:
        return bool(json.loads(line))
    except ValueError:
        return False
lines = [reads(line) for line in open(sys.argv[1])]
sys.exit(0 if lines.count(True) == 30 and lines.count(False) == 1 else repr(lines))" "$folder/journal.jsonl"; }
check "a line that was cut short spoils no other" whole
check "the log says that it was resumed" grep -q ' resumed: ' "$folder/log.txt"
check "resuming what is no run" exits 1 "$zellige" bench run "$tmp/long.json" --resume "$tmp"

# Ctrl-C ends it in order.
two_rows() { [ "$(cat "$tmp"/interrupted/*/journal.jsonl 2>/dev/null | wc -l)" -ge 2 ]; }
check "an interrupted run says how to go on" interrupted two_rows 1 'interrupted after [0-9]* rows; zellige bench run --resume .*/interrupted/' \
    "$zellige" bench run "$tmp/long.json" --seconds 0.1 --samples 50 --out "$tmp/interrupted" # the rest of the suite takes longer than 20 s
check "and is written as such" grep -q '"status": "interrupted"' "$tmp"/interrupted/*/metrics.json

# Where it cannot write.
if mkdir "$tmp/disk" && mount -t tmpfs -o size=20k none "$tmp/disk" 2>/dev/null; then
    check "a full disk ends it, and is said" says 'cannot write .*No space left on device' "$zellige" bench run "$tmp/long.json" --seconds 0.01 --out "$tmp/disk"
    check "with an exit code" exits 1 "$zellige" bench run "$tmp/long.json" --seconds 0.01 --out "$tmp/disk"
    check "as a gate: 3" exits 3 "$zellige" bench check "$tmp/long.json" --seconds 0.01 --out "$tmp/disk" --baseline "$folder"
    umount "$tmp/disk"
else
    skip "a full disk" "no tmpfs can be mounted"
fi
touch "$tmp/file"
check "a folder that cannot be made" says 'cannot make a folder in .*: Not a directory' run --out "$tmp/file/runs"

# On a terminal of 40 columns, the bar never wraps; the time that is left is said.
on_terminal() { # COLUMNS COMMAND...
    python3 - "$@" <<'END'
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
data = b""
while True:
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        break
    if not piece:
        break
    data += piece
bars = [part.split("\r")[0].split("\n")[0] for part in data.decode().split("\033[K")[1:]]
bars = [bar for bar in bars if bar.startswith("[")]
print(max(map(len, bars)), "columns at most,", len(bars), "bars", *bars[-1:])
print(data.decode())
END
}
narrow() { on_terminal 40 "$zellige" bench run "$tmp/small.json" "${quick[@]}" --out "$tmp/runs"; }
check "a bar on a narrow terminal" says '^3[0-9] columns at most, 8 bars .* s left' narrow
without_colour() { on_terminal 100 /usr/bin/env NO_COLOR=1 "$zellige" bench run "$tmp/small.json" "${quick[@]}" --out "$tmp/runs" | grep -c $'\033\[[0-9;]*m'; }
check "NO_COLOR" says '^0$' without_colour
check "no colours into a pipe" says '^0$' sh -c "'$zellige' bench devices | grep -c '$(printf '\033')'"
finish
