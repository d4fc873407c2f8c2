#!/usr/bin/env bash
# train.sh BUILD - `zellige train lm` and `train recall`: they learn, are stopped and resumed to the same file, and say what is wrong.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

zellige=$build/zellige
export ZL_CACHE_DIR=$tmp/cache
for _ in $(seq 60); do echo "a rose is a rose is a rose, and so on and on."; done >"$tmp/text.txt"
small=(train lm "$tmp/text.txt" --width 16 --layers 1 --heads 2 --context 16 --batch 4 --tested 4 --rate 0.02 --every 10)
lm() { "$zellige" "${small[@]}" --steps 30 "$@"; }
recall() { "$zellige" train recall --pairs 2 --words 4 --width 16 --batch 8 --steps 20 --every 10 --rate 0.02 "$@"; }
falls() { # FILE LINES BOUND: so many lines of JSON, whose held-out loss falls, to less than BOUND
    python3 -c "
import json, sys
loss = [json.loads(line)['held_out_loss'] for line in open(sys.argv[1])]
sys.exit(0 if len(loss) == int(sys.argv[2]) and loss[-1] < min(loss[0], float(sys.argv[3])) else repr(loss))" "$@"
}

lm --checkpoint "$tmp/whole.safetensors" --json >"$tmp/whole.txt"
check "a language model learns" falls "$tmp/whole.txt" 3 2
killed() { # after its first test, then resumed: the same file
    "$zellige" "${small[@]}" --steps 30 --checkpoint "$tmp/cut.safetensors" >/dev/null 2>&1 &
    local job=$!
    for _ in $(seq 600); do [ -s "$tmp/cut.safetensors" ] && break || sleep 0.02; done
    kill -9 $job
    wait $job 2>/dev/null
    lm --checkpoint "$tmp/cut.safetensors" --resume >/dev/null && cmp "$tmp/cut.safetensors" "$tmp/whole.safetensors"
}
check "a killed training ends the same" killed
cp "$tmp/whole.safetensors" "$tmp/kept.safetensors"
check "a finished training has nothing to do" exits 0 lm --checkpoint "$tmp/whole.safetensors" --resume
check "and changes nothing" cmp "$tmp/whole.safetensors" "$tmp/kept.safetensors"
tested() { [ -s "$tmp/ended.safetensors" ]; }
check "an interrupted training says how to go on" interrupted tested 75 'ended.safetensors has [0-9]+ steps, with --resume it goes on' \
    "$zellige" "${small[@]}" --steps 100000 --checkpoint "$tmp/ended.safetensors"
check "another mixer's checkpoint" says "is of about '.*--mixer gated_delta .*', and this training of '.*--mixer kda " \
    lm --mixer kda --checkpoint "$tmp/whole.safetensors" --resume
check "softmax attention, Muon and sums of batches" exits 0 lm --mixer attention --optimizer muon --accumulate 2

recall --checkpoint "$tmp/recall.safetensors" --json >"$tmp/recall.txt"
check "recall learns" falls "$tmp/recall.txt" 2 2
check "and tells its accuracy" grep -qE '"accuracy": [01]' "$tmp/recall.txt"

printf '{"model": {"type": "BPE", "vocab": {"a": 0, "\\u0120": 1, "rose": 2, "r": 3, "o": 4, "s": 5, "e": 6, "i": 7, ",": 8, "n": 9, "d": 10, ".": 11, "\\u010a": 12}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}, "decoder": {"type": "ByteLevel"}}' >"$tmp/tokenizer.json"
check "a tokenizer's tokens" exits 0 lm --tokenizer "$tmp/tokenizer.json"

check "no such mixer" says "no mixer 'best': there are attention linear" lm --mixer best
check "is wrong usage" exits 2 recall --mixer best
check "a text that is not there" says 'none.txt: No such file' "$zellige" train lm "$tmp/none.txt"
check "a text that is too short" says 'both parts need more than --context 4096' lm --context 4096
check "more pairs than keys" exits 2 recall --pairs 8 --words 4
check "a checkpoint that cannot be written" says 'cannot write .*: No such file or directory' recall --checkpoint "$tmp/none/x.safetensors"
check "a checkpoint of another name" exits 2 recall --checkpoint "$tmp/x.npz"
check "no text" exits 2 "$zellige" train lm
finish
