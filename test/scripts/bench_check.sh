#!/usr/bin/env bash
# bench_check.sh BUILD - `zellige bench check` and `compare`: a planted slowdown is caught, unchanged code is not blamed,
# and a gate that measured nothing says so. ZL_LONG=1 makes twenty of each.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

zellige=$build/zellige
if ! "$zellige" bench devices >/dev/null 2>&1; then
    skip "checks" "$("$zellige" bench devices 2>&1 | head -n 1)"
    finish
fi
cat >"$tmp/suite.json" <<'END'
{"name": "gate", "items": [
  {"work": "gemm", "sizes": [128]},
  {"work": "elementwise", "ops": ["exp"], "sizes": ["64K"]}]}
END

# A zellige whose evaluations take a fifth longer.
cc -shared -fPIC -D_GNU_SOURCE -O2 -o "$tmp/slow.so" test/scripts/slow_eval.c -ldl || exit
printf '#!/bin/sh\nSLOW_PERCENT=20 LD_PRELOAD=%s exec %s "$@"\n' "$tmp/slow.so" "$zellige" >"$tmp/slow" && chmod +x "$tmp/slow"
against() { "$1" bench check "$tmp/suite.json" --against "$2" "${@:3}"; } # CANDIDATE BASELINE OPTION...
# The baseline, also when the candidate that starts it is slowed down.
printf '#!/bin/sh\nunset LD_PRELOAD\nexec %s "$@"\n' "$zellige" >"$tmp/plain" && chmod +x "$tmp/plain"
count() { # CODE TIMES COMMAND...: how often it ended with that code
    local code=$1 n=$2 hits=0
    shift 2
    for ((i = 0; i < n; i++)); do
        "$@" >/dev/null 2>&1
        [ $? = "$code" ] && hits=$((hits + 1))
    done
    echo $hits
}
times=1
if [ -n "${ZL_LONG:-}" ]; then # twenty of each, recorded: test/bench/gate_*.jsonl are from this on a busy machine
    times=20
    rm -f "$build"/gate_slower.jsonl "$build"/gate_same.jsonl
fi
planted() { against "$tmp/slow" "$tmp/plain" --record "$build/gate_slower.jsonl"; }
unchanged() { against "$zellige" "$tmp/plain" --record "$build/gate_same.jsonl"; }
caught=$(count 1 $times planted)
check "a planted slowdown of 20 % is caught ($caught of $times)" [ "$caught" -ge $(((times * 19 + 19) / 20)) ]
blamed=$(count 1 $times unchanged)
check "unchanged code is not blamed ($blamed of $times)" [ "$blamed" -le $((times / 20)) ]

# The same from samples that were recorded while eight others used the two cores (load 8 to 13).
replay() { "$zellige" bench check --replay "$@"; }
swapped() { sed 's/"before_ps"/"x"/g; s/"after_ps"/"before_ps"/g; s/"x"/"after_ps"/g' test/bench/gate_slower.jsonl >"$tmp/swapped.jsonl" && replay "$tmp/swapped.jsonl"; }
check "recorded slowdowns are caught" says '^(19|20) of 20 checks found something slower' replay test/bench/gate_slower.jsonl
check "recorded unchanged code is not blamed" says '^[01] of 20 checks found something slower' replay test/bench/gate_same.jsonl
check "the other way round they are faster" says '^0 of 20 checks found something slower' swapped
check "beyond a wide threshold there are none" says '^0 of 20 checks' replay test/bench/gate_slower.jsonl --threshold 900
check "something slower is 1" exits 1 replay test/bench/gate_slower.jsonl
check "nothing recorded is 3" exits 3 replay /dev/null
check "what is no record is a usage error" exits 2 replay "$tmp/suite.json"
check "records are of checks in turns" exits 2 "$zellige" bench check --baseline "$tmp" --record "$tmp/x"
check "the verdict says that it was in turns" says 'measured in turns' against "$zellige" "$zellige"
check "options of a run are not for turns" says '^zellige bench check: --seconds is for --baseline' against "$zellige" "$zellige" --seconds 1
check "one thread each" says '1 same|1 ambiguous|1 faster|1 slower' against "$zellige" "$tmp/plain" --threads 1 --only gemm
check "interrupted in turns" interrupted has_child 3 'interrupted: not all of it was compared' "$zellige" bench check simple --against "$zellige"
check "another program that is not there" exits 2 against "$zellige" "$tmp/none"
check "a run in the place of a program" says "is a run: use --baseline $tmp" "$zellige" bench check --against "$tmp"
check "is a usage error" exits 2 "$zellige" bench check --against "$tmp/metrics.json"
check "a program in the place of a run" says 'is a program: use --against' "$zellige" bench check --baseline "$zellige"
check "a record that cannot be written" says 'cannot write .*/none/x: No such file' against "$zellige" "$zellige" --record "$tmp/none/x"
check "a program that ends is said" says 'the program that is compared ended' against "$zellige" /bin/true
check "and is nothing to compare: 3" exits 3 against "$zellige" /bin/true

# Recorded runs: their samples are as given.
make_run() { # FILE CHIP FACTOR [STATUS]: rows a and b, of which a takes so much longer
    python3 - "$@" <<'END'
import json, sys
file, chip, factor, status = sys.argv[1], sys.argv[2], float(sys.argv[3]), (sys.argv[4:] or ["ok"])[0]
def row(name, scale):
    return {"id": name, "work": "gemm", "op": "", "dtype": "f32", "size": [8], "status": status, "note": "", "unit": "FLOP",
            "flops": 1, "bytes": 1, "items": 0, "samples_s": [scale * (1 + 0.01 * (i * 7 % 11)) for i in range(50)]}
json.dump({"suite": "x", "subject": {"chip": chip, "name": chip, "device": "cpu", "threads": 2, "peaks": {}}, "timing": {},
           "rows": [row("a", factor), row("b", 1.0)]}, open(file, "w"))
END
}
make_run "$tmp/base.json" chip 1
make_run "$tmp/same.json" chip 1.01
make_run "$tmp/slow.json" chip 1.2
make_run "$tmp/fast.json" chip 0.7
make_run "$tmp/other.json" another 1
make_run "$tmp/failed.json" chip 1 failed
make_run "$tmp/suspect.json" chip 1 suspect
gate() { "$zellige" bench check --baseline "$tmp/base.json" --candidate "$1" "${@:2}"; }
check "the same is 0" exits 0 gate "$tmp/same.json"
check "slower is 1" exits 1 gate "$tmp/slow.json"
check "slower is named" says '^a .*slower' gate "$tmp/slow.json"
check "what did not change is the same" says '^b .*same' gate "$tmp/slow.json"
check "faster is 0" exits 0 gate "$tmp/fast.json"
check "a wider threshold allows it" exits 0 gate "$tmp/slow.json" --threshold 30
check "another chip cannot be compared: 3" exits 3 gate "$tmp/other.json"
check "and it says why" says 'other chips: chip and another' gate "$tmp/other.json"
check "suspect rows are 4" exits 4 gate "$tmp/suspect.json"
check "what was right and fails now is 1" exits 1 gate "$tmp/failed.json"
check "and is said" says '^a .*failed: ok before, failed after' gate "$tmp/failed.json"
turned() { "$zellige" bench check --baseline "$tmp/failed.json" --candidate "$tmp/same.json"; }
check "what failed before cannot be compared: 3" exits 3 turned
check "nothing to compare with is a usage error" exits 2 "$zellige" bench check
check "a baseline that is not there" exits 2 "$zellige" bench check --baseline "$tmp/none.json" --candidate "$tmp/same.json"
check "it says that it was not in turns" says 'not measured in turns' gate "$tmp/same.json"
head -c 300 "$tmp/base.json" >"$tmp/cut.json"
check "a damaged baseline" exits 2 gate "$tmp/same.json" --baseline "$tmp/cut.json"
check "a threshold that is no number" says '^zellige bench check: --threshold x: wanted a number, 0 or more' gate "$tmp/same.json" --threshold x
printf '#!/bin/sh\nwhile read -r line; do echo "! wrong result"; done\n' >"$tmp/wrong" && chmod +x "$tmp/wrong"
check "a program that was wrong before is no news: 3" exits 3 against "$zellige" "$tmp/wrong"
check "runs that are not there are not compared" exits 2 "$zellige" bench compare "$tmp/base.json" "$tmp/none.json"
check "compare is no gate" exits 0 "$zellige" bench compare "$tmp/base.json" "$tmp/slow.json"
check "compare needs two" exits 2 "$zellige" bench compare "$tmp/base.json"
check "compare --json" says '"verdict": "slower"' "$zellige" bench compare --json "$tmp/base.json" "$tmp/slow.json"
check "check measures anew" says 'slower, .* not measured in turns' "$zellige" bench check "$tmp/suite.json" --seconds 0.05 --out "$tmp/runs" --baseline "$(
    "$zellige" bench run "$tmp/suite.json" --seconds 0.05 --out "$tmp/runs" >/dev/null
    echo "$tmp"/runs/2*)"
finish
