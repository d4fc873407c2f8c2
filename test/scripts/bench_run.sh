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
  {"work": "gemm", "dtypes": ["f32", "bf16", "fp8"], "sizes": [64, [32, 64, 96]]},
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
check "what there is no dtype for is a row that says so" metrics "r['gemm/fp8/64']['status'] == 'absent' and 'fp8' in r['gemm/fp8/64']['note']"
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
check "a peak that is too low makes rows suspect, and the exit code says so" exits 4 run --only gemm/f32 --peak f32=0.000001
check "the row says why" metrics "'--peak f32=1e-06' in r['gemm/f32/64']['note']"
check "an unknown suite" exits 2 "$zellige" bench run no_such_suite --out "$tmp/runs"
check "an unknown device" exits 1 "$zellige" bench run --device abacus --out "$tmp/runs"
check "samples of none" exits 2 run --samples 0
echo '{"items": [{"work": "gemm", "sizes": [[2, 3]]}, {"work": "gemm", "sizes": [8]}]}' >"$tmp/bad.json"
check "a configuration that fails is a row, and the rest goes on" exits 1 "$zellige" bench run "$tmp/bad.json" "${quick[@]}" --out "$tmp/runs"
check "its error is in the row" metrics "'m, n, k' in r['gemm/f32/2x3']['note'] and r['gemm/f32/8']['status'] == 'ok'"

# A device that runs on no chip of the table, and has no kernel for everything.
if "$zellige" devices | grep -q '^opencl *0'; then
    echo '{"items": [{"work": "gemm", "sizes": [64]}, {"work": "mlp", "sizes": [[32, 16]]}]}' >"$tmp/opencl.json"
    check "a device without a known chip" exits 0 "$zellige" bench run "$tmp/opencl.json" --device opencl "${quick[@]}" --out "$tmp/runs"
    check "its peaks are not known" metrics "d['subject']['chip'] == '' and r['gemm/f32/64']['utilisation'] is None"
    check "what would run on the CPU is absent, and says so" metrics "r['mlp/f32/32x16']['status'] == 'absent' and 'CPU' in r['mlp/f32/32x16']['note']"
else
    skip "another device" "no OpenCL"
fi

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
check "the log says that it was resumed" grep -q ' resumed: ' "$folder/log.txt"
check "resuming what is no run" exits 1 "$zellige" bench run "$tmp/long.json" --resume "$tmp"

# Ctrl-C ends it in order.
"$zellige" bench run "$tmp/long.json" --seconds 0.1 --samples 50 --out "$tmp/interrupted" >/dev/null 2>&1 &
victim=$!
for _ in $(seq 600); do
    [ "$(cat "$tmp"/interrupted/*/journal.jsonl 2>/dev/null | wc -l)" -ge 2 ] && break
    sleep 0.05
done
kill -TERM $victim
since=$SECONDS
wait $victim
code=$?
soon() { [ $((SECONDS - since)) -le 20 ]; } # the rest of the suite takes longer
check "an interruption ends it soon" soon
interrupted() { [ "$code" = 1 ] && grep -q '"status": "interrupted"' "$tmp"/interrupted/*/metrics.json; }
check "an interrupted run is written as such" interrupted
finish
