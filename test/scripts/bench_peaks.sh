#!/usr/bin/env bash
# bench_peaks.sh BUILD - `zellige bench peaks` while another process uses a core: each dtype's best instruction comes within 3 %
# of what its table says at the measured clock, and all cores at once reach no more than that times their number.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

zellige=$build/zellige
if ! "$zellige" bench devices >/dev/null 2>&1; then
    skip "peaks" "$("$zellige" bench devices 2>&1 | head -n 1)"
    finish
fi
taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')" sh -c 'while :; do :; done' & # on our first core
busy=$!
trap 'kill $busy 2>/dev/null; rm -rf "$tmp"' EXIT
chip=$("$zellige" bench devices --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[-1]["chip"] or "")')
near_theory() {
    "$zellige" bench peaks --json --seconds 2 | python3 -c '
import json, sys
peaks, chip = json.load(sys.stdin), sys.argv[1]
table = {c["id"]: c.get("ops_per_cycle_per_core", {}) for c in json.load(open("cli/bench/hw_specs.json"))["cpus"]}.get(chip, {})
best, whole = {}, {}
for i in peaks["instructions"]:
    best[i["dtype"]] = max(best.get(i["dtype"], 0), i["per_cycle"])
    whole[i["dtype"]] = max(whole.get(i["dtype"], 0), i["gop_s_all_cores"] / (i["gop_s_per_core"] * peaks["threads"]))
known = {d: r for d, r in best.items() if table.get(d)}
print(peaks["clock_ghz"], {d: (r, table.get(d)) for d, r in best.items()}, whole)
bad = [d for d, r in known.items() if abs(r / table[d] - 1) > 0.03] + [d for d, r in whole.items() if r > 1.03]
sys.exit(1 if bad or not best else 0)' "$chip"
}
check "peaks beside a busy process (${chip:-an unknown CPU})" near_theory
finish
