#!/usr/bin/env bash
# bench_peaks.sh BUILD - `zellige bench peaks` while another process uses a core: each dtype's best instruction comes within 3 %
# of what its table says at the measured clock; of a CPU without a table, operations per cycle of f32 are a multiple of 8 (a
# multiply-add of four numbers), those of f64 half as many. All cores at once reach no more than one times their number, and at
# least half as much, as cores may share units.
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
chip=$("$zellige" bench devices --json | python3 -c 'import json, sys; print(next(d["chip"] for d in json.load(sys.stdin) if d["kind"] == "cpu") or "")')
near_theory() {
    "$zellige" bench peaks --json --seconds 2 | python3 -c '
import json, sys
peaks, chip = json.load(sys.stdin), sys.argv[1]
table = {c["id"]: c.get("ops_per_cycle_per_core", {}) for c in json.load(open("cli/bench/hw_specs.json"))["cpus"]}.get(chip, {})
best, whole = {}, {}
for i in peaks["instructions"]:
    best[i["dtype"]] = max(best.get(i["dtype"], 0), i["per_cycle"])
    whole[i["dtype"]] = max(whole.get(i["dtype"], 0), i["gop_s_all_cores"] / (i["gop_s_per_core"] * peaks["threads"]))
known = {d: table[d] for d in best if table.get(d)}
known = known or {"f32": max(8, 8 * round(best["f32"] / 8)), "f64": best["f32"] / 2}
print(peaks["clock_ghz"], {d: (r, known.get(d)) for d, r in best.items()}, whole)
bad = [d for d in known if abs(best[d] / known[d] - 1) > 0.03] + [d for d, r in whole.items() if not 0.48 < r < 1.0001]
sys.exit(1 if bad or not best else 0)' "$chip"
}
# Another machine on the same processor may slow all slices for seconds, which no choice among them can undo.
near_theory_in_three_tries() { near_theory || near_theory || near_theory; }
check "peaks beside a busy process (${chip:-an unknown CPU})" near_theory_in_three_tries
finish
