#!/usr/bin/env bash
# bench_auto.sh BUILD - `zellige bench auto`, `search`, `log` and `report`: they find, compare and write down.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

zellige=$build/zellige
if ! "$zellige" bench devices >/dev/null 2>&1; then
    skip "bench auto" "$("$zellige" bench devices 2>&1 | head -n 1)"
    finish
fi
auto() { "$zellige" bench auto --short --threads 1 --out "$tmp/runs"; }
last() { find "$tmp/runs" -mindepth 1 -maxdepth 1 -type d | sort | tail -n 1; }
not_failed() { "$@"; local code=$?; [ $code = 0 ] || [ $code = 4 ]; } # a loaded machine may make peaks look low

check "auto runs" not_failed auto
check "the report is there" test -s "$(last)/report.html"
first=$(last)
check "the second run is compared with the first" says 'since 20.*: [0-9]+ slower' auto
damaged() { # the last run; the one before is taken
    cp "$(last)/metrics.json" "$tmp/kept.json" && head -c 500 "$tmp/kept.json" >"$(last)/metrics.json"
    local second
    second=$(last)
    auto
    cp "$tmp/kept.json" "$second/metrics.json" && rm -r "$(last)" && sed -i '$d' "$tmp/runs/index.jsonl"
}
check "a damaged run of before is said" says "metrics.json:[0-9]+:[0-9]+: .*: compared with the one before" damaged
check "the trend has both" grep -q 'last 2 runs' "$(last)/report.html"
same_bytes() { "$zellige" bench report "$1" | cmp - "$1/report.html"; }
check "the same data gives the same bytes" same_bytes "$(last)"
check "report as Markdown" says '^\| gemm/f32/512 ' "$zellige" bench report --format markdown "$first"
check "report as md is the same" cmp <("$zellige" bench report --format markdown "$first") <("$zellige" bench report --format md "$first")
stable_rows() { # the headlines say how many rows were not stable, as metrics.json has it
    local count
    count=$(python3 -c "import json, sys; print(sum(r['status'] == 'ok' and not r['stable'] for r in json.load(open(sys.argv[1]))['rows']))" "$first/metrics.json")
    "$zellige" bench report "$first" >"$tmp/stable.html" && "$zellige" bench report --format md "$first" >"$tmp/stable.md" &&
        grep -q "<b>$count</b><span class=\"soft\">not stable</span>" "$tmp/stable.html" &&
        grep -q "^20.* $count of [0-9]* rows not stable" "$tmp/stable.md" ||
        { echo "$count" && grep -n "not stable" "$tmp/stable.html" "$tmp/stable.md" && return 1; }
}
check "headlines count rows that are not stable" stable_rows
hashes() { # the page runs its own script and style, by their hashes, and nothing else
    "$zellige" bench report "$first" >"$tmp/page.html" && python3 - "$tmp/page.html" <<'END'
import base64, hashlib, re, sys
page = open(sys.argv[1]).read()
policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)[1]
def hash_of(tag):
    text = re.search(f"<{tag}>(.*?)</{tag}>", page, re.S)[1]
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
wanted = {"default-src": "'none'", "script-src": hash_of("script"), "style-src": hash_of("style"), "img-src": "data:",
          "base-uri": "'none'", "form-action": "'none'"}
assert dict(part.split(" ", 1) for part in policy.split("; ")) == wanted, policy
assert not re.search(r" style=| on[a-z]+=", page.split("<body>")[1].split("<script>")[0])
END
}
check "the report's policy has the hashes of its script and style" hashes
check "report in no such format" exits 2 "$zellige" bench report --format pdf "$first"
check "report of nothing" exits 1 "$zellige" bench report "$tmp/none"

log() { "$zellige" bench log "$(last)" --file "$tmp/log.md" "$@"; }
check "log" exits 0 log --notes "what we learnt"
check "log again" exits 0 log --baseline "$first"
entries() { [ "$(grep -c '^## 20' "$tmp/log.md")" = 2 ] && [ "$(grep -c '^# Experiments' "$tmp/log.md")" = 1 ] || { cat "$tmp/log.md"; return 1; }; }
check "the log has two entries under one title" entries
no_git() { (cd "$tmp" && mkdir -p no_git && cd no_git && GIT_CEILING_DIRECTORIES=$tmp "$@"); }
echo '{"items": [{"work": "gemm", "sizes": [16]}]}' >"$tmp/tiny.json"
no_git "$zellige" bench run "$tmp/tiny.json" --seconds 0.001 --samples 2 --out runs >/dev/null
check "log outside a git tree" no_git sh -c "'$zellige' bench log runs/20*"
check "says so" grep -q "^- source: no git tree, Zellige [0-9]" "$tmp/no_git/EXPERIMENTS.md"
check "log without git at all" no_git env PATH=/nonexistent "$zellige" bench log "$(last)" --file "$tmp/no_git/other.md"
check "notes, results and the comparison are in it" sh -c "grep -q 'what we learnt' '$tmp/log.md' && grep -q '^| gemm/' '$tmp/log.md' && grep -q '^Baseline ' '$tmp/log.md'"

search() { "$zellige" bench search --threads 1 --seconds 0.005 --samples 3 --least 32 --most 128 --out "$tmp/search" "$@"; }
check "search names the best shape" says '^best: [0-9]+ x [0-9]+ x [0-9]+' search --budget 5
confirmed() { # five are measured once more, and the best of these is said
    local folder
    folder=$(find "$tmp/search" -mindepth 1 -maxdepth 1 -type d | sort | head -n 1)
    [ "$(grep -c '#confirm' "$folder/results.csv")" = 5 ]
}
check "the first five are confirmed" confirmed
again() { # nothing is left to do, and nothing is done twice
    local folder
    folder=$(find "$tmp/search" -mindepth 1 -maxdepth 1 -type d | sort | head -n 1)
    search --budget 0 --resume "$folder" && [ "$(grep -c '#confirm' "$folder/results.csv")" = 5 ] || return 1
    ! grep -q '#confirm#confirm' "$folder/results.csv"
}
check "a finished search resumed" again
check "search within no time at all" exits 0 search --budget 0
check "search for an unknown dtype" exits 2 search --dtype f99
check "search in no range" exits 2 search --least 64 --most 32

# Training.
if [ -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ]; then
    train() { timeout 300 "$zellige" train mnist --hidden 32 "$@"; }
    train --epochs 2 --seed 3 --checkpoint "$tmp/whole.safetensors" --json >"$tmp/whole.txt"
    cp "$tmp/whole.safetensors" "$tmp/kept.safetensors"
    learns() { python3 -c "
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
sys.exit(0 if len(lines) == 2 and lines[1]['test_accuracy'] > 0.82 and lines[1]['loss'] < lines[0]['loss'] else repr(lines))" "$1"; }
    check "two epochs learn" learns "$tmp/whole.txt"
    check "a finished training resumed has nothing to do" exits 0 train --epochs 2 --seed 3 --checkpoint "$tmp/whole.safetensors" --resume
    check "and changes nothing" cmp "$tmp/whole.safetensors" "$tmp/kept.safetensors"
    killed() { # after the first epoch, then resumed: the same file
        "$zellige" train mnist --hidden 32 --epochs 2 --seed 3 --checkpoint "$tmp/cut.safetensors" >/dev/null 2>&1 &
        local job=$!
        for _ in $(seq 600); do [ -s "$tmp/cut.safetensors" ] && break || sleep 0.05; done
        kill -9 $job
        wait $job 2>/dev/null
        train --epochs 2 --seed 3 --checkpoint "$tmp/cut.safetensors" --resume >/dev/null && cmp "$tmp/cut.safetensors" "$tmp/whole.safetensors"
    }
    check "a killed training ends the same" killed
    one_epoch() { [ -s "$tmp/ended.safetensors" ]; }
    check "an interrupted training says how to go on" interrupted one_epoch 75 'ended.safetensors has [0-9]+ steps, with --resume it goes on' \
        "$zellige" train mnist --hidden 32 --epochs 1000 --checkpoint "$tmp/ended.safetensors"
    check "a checkpoint of another network" exits 1 "$zellige" train mnist --hidden 16 --checkpoint "$tmp/whole.safetensors" --resume
    check "widths that are none" exits 2 "$zellige" train mnist --hidden 12,x
    nothing_read() { ! "$zellige" train mnist "$@" 2>&1 | grep 'images to learn'; }
    check "are said before the images are read" nothing_read --hidden 12,x
    check "as is a checkpoint that cannot be written" nothing_read --checkpoint "$tmp/none/x.safetensors"
    check "with the reason" says 'cannot write .*: No such file or directory' "$zellige" train mnist --checkpoint "$tmp/none/x.safetensors"
    if [ -n "${ZL_LONG:-}" ]; then
        reaches() { "$zellige" train mnist --json | tail -n 1 | python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)["test_accuracy"] < 0.88)'; }
        check "ten epochs reach 88 %" reaches
    fi
else
    skip "training" "no dataset-fashion-mnist"
fi
check "a dataset that is not there" says 'apt install dataset-fashion-mnist' "$zellige" train mnist --data "$tmp"
printf 'no dataset' >"$tmp/train-images-idx3-ubyte"
check "a file that is no dataset" says "not a whole file of MNIST's form" "$zellige" train mnist --data "$tmp"
finish
