#!/usr/bin/env bash
# language.sh BUILD - `zellige generate`, `chat` and `perplexity` on a tiny checkpoint whose tokens are letters.
. "$(dirname "$0")/lib.sh"

zellige=$build/zellige
model=$tmp/model
cp -r test/model/lm/qwen3 "$model" && chmod -R u+w "$model"
command -v python3 >/dev/null || { echo "skipped: no python3 to write a tokenizer with"; skipped=1; finish; }

# 38 letters and signs, and two tokens that end an answer. The template writes the roles as letters.
python3 - "$model" <<'PYTHON'
import json, sys
letters = "abcdefghijklmnopqrstuvwxyz0123456789.Ġ"
added = [dict(id=38 + i, content=c, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
         for i, c in enumerate(("<end>", "<stop>"))]
json.dump(dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None,
               pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False), post_processor=None,
               decoder=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True),
               model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                          fuse_unk=False, byte_fallback=False, vocab={c: i for i, c in enumerate(letters)}, merges=[])),
          open(sys.argv[1] + "/tokenizer.json", "w"))
json.dump(dict(tokenizer_class="Qwen2Tokenizer", eos_token="<end>", chat_template=
               "{% for m in messages %}{{ m.role[0] + '.' + m.content + ' ' }}{% endfor %}a."),
          open(sys.argv[1] + "/tokenizer_config.json", "w"))
PYTHON

generate() { timeout 60 "$zellige" generate -m "$model" --ignore-eos "$@"; }
field() { sed -n 's/^ *"'"$1"'": \(.*[^,]\),*$/\1/p' "$tmp/json"; } # of the object in $tmp/json

ten() { generate -p "abc" -n 10 --ignore-chat-template >"$tmp/ten" 2>"$tmp/err" && [ "$(tr -d '\n' <"$tmp/ten" | wc -c)" -ge 5 ]; }
check "generate goes on from a prompt" ten
check "speeds and memory are on standard error" grep -q '^generation: 10 tokens, [0-9.]* tokens/s$' "$tmp/err"
same() { diff <(generate -p "abc" -n 10 --ignore-chat-template -b 1 2>/dev/null) "$tmp/ten"; }
check "chunks of the prompt change nothing" same
printed() { generate -p "abc" -n 10 --ignore-chat-template --json >"$tmp/json" && [ "$(field generation_tokens)" = 10 ] && [ "$(field finish_reason)" = '"length"' ] && [ "$(field text)" = "\"$(cat "$tmp/ten")\"" ]; }
check "--json has the text and the counts" printed
from_file() { printf abc >"$tmp/prompt" && diff <(generate -f "$tmp/prompt" -n 10 --ignore-chat-template 2>/dev/null) "$tmp/ten"; }
check "the prompt may be a file" from_file
stopped() { # before the third letter of the answer
    local letter
    letter=$(cut -c3 "$tmp/ten")
    generate -p "abc" -n 10 --ignore-chat-template --stop "$letter" --json >"$tmp/json" && [ "$(field finish_reason)" = '"stop"' ] && [[ "$(field text)" != *"$letter"* ]]
}
check "a stop text ends the answer and is not part of it" stopped
check "--kv-bits that a model's heads do not fit" says 'heads of 12 features cannot be cut in groups of 32' generate -p abc --kv-bits 8
earlier() { # the text that comes first ends it, however many there are
    local third fourth
    third=$(cut -c3 "$tmp/ten") fourth=$(cut -c4-5 "$tmp/ten")
    generate -p "abc" --n-predict 10 --ignore-chat-template -r "$fourth" --stop "$third" --json >"$tmp/json" && [ "$(field finish_reason)" = '"stop"' ] && [[ "$(field text)" != *"$third"* ]]
}
check "several stop texts, and names of other programs" earlier
check "an empty stop text" exits 2 "$zellige" generate -m "$model" -p abc --stop ""
drawn() { diff <(generate -p abc -n 20 --temp 1 --top-k 5 --seed 3 2>/dev/null) <(generate -p abc -n 20 --temp 1 --top-k 5 --seed 3 2>/dev/null); }
check "a seed draws the same tokens" drawn
biased() { [ "$(generate -p abc -n 3 --ignore-chat-template --logit-bias 4+1000 2>/dev/null)" = eee ]; }
check "--logit-bias" biased
templated() { diff <(generate -p "hi" -n 10 2>/dev/null) <(generate -p "u.hi a." -n 10 --ignore-chat-template 2>/dev/null); }
check "a prompt is a question where there is a template" templated
system() { diff <(generate -p "hi" --system-prompt "be" -n 10 2>/dev/null) <(generate -p "s.be u.hi a." -n 10 --ignore-chat-template 2>/dev/null); }
check "--system-prompt" system

odd() { generate -p $'a\xffb' -n 3 >/dev/null 2>&1; }
check "a prompt with bytes that are not UTF-8" odd
printf 'ab\0cd' >"$tmp/nul"
nul() { generate -f "$tmp/nul" -n 3 --json >"$tmp/json" && [ "$(field prompt_tokens)" = 9 ]; } # u.abcd a. without the NUL, which has no token
check "a prompt with a NUL inside is read to its end" nul
changed() { # FOLDER FILE CODE: a copy of the model whose FILE is changed by Python's CODE, which has it as d
    cp -r "$model" "$tmp/$1" && python3 -c "import json; f = '$tmp/$1/$2'; d = json.load(open(f)); $3; json.dump(d, open(f, 'w'))"
}
ends() { # a model that names no end ends where its tokenizer says
    changed endless config.json "d.pop('eos_token_id')" && "$zellige" generate -m "$tmp/endless" -p abc -n 5 --logit-bias 38+1000 --json >"$tmp/json" && [ "$(field finish_reason)" = '"end"' ]
}
check "the end that only the tokenizer names" ends
padded() { # ids that the tokenizer does not know have no text
    changed padded tokenizer.json "d['model']['vocab'].pop('u')" && [ -z "$("$zellige" generate -m "$tmp/padded" -p abc -n 3 --logit-bias 20+1000 --ignore-chat-template 2>/dev/null)" ]
}
check "ids that pad the vocabulary" padded

# A conversation computes only what is new, and says what computing all of it would.
chat() { timeout 60 "$zellige" chat -m "$model" -n 6 --logit-bias 38-1000,39-1000 2>/dev/null; }
talk() { printf 'hi\nho\n' | chat >"$tmp/talk" && [ "$(wc -l <"$tmp/talk")" = 2 ]; }
check "chat answers each line" talk
foreign() { [ "$(printf 'h\xff\nho\n' | chat | wc -l)" = 2 ]; }
check "chat goes on after a line that is not UTF-8" foreign
again() {
    local first second
    first=$(sed -n 1p "$tmp/talk") second=$(sed -n 2p "$tmp/talk")
    diff <(timeout 60 "$zellige" generate -m "$model" -n 6 --logit-bias 38-1000,39-1000 --ignore-chat-template -p "u.hi a.$first u.ho a." 2>/dev/null) <(echo "$second")
}
check "its second answer is that to the whole conversation" again
cleared() { printf 'ho\n/clear\nhi\n/exit\nhi\n' | chat >"$tmp/cleared" && [ "$(wc -l <"$tmp/cleared")" = 2 ] && [ "$(sed -n 2p "$tmp/cleared")" = "$(sed -n 1p "$tmp/talk")" ]; }
check "/clear and /exit" cleared

# Ctrl-C stops an answer that would go on for long; the next question is answered, from what was said before.
interrupted() {
    local answer pid before
    mkfifo "$tmp/questions"
    "$zellige" chat -m "$model" -n 20000 --logit-bias 38-1000,39-1000 <"$tmp/questions" >"$tmp/answers" 2>/dev/null &
    pid=$!
    exec 9>"$tmp/questions"
    for answer in 1 2; do
        before=$(stat -c %s "$tmp/answers")
        echo hi >&9
        until [ "$(stat -c %s "$tmp/answers")" -gt $((before + 20)) ]; do sleep 0.02; kill -0 "$pid" || return 1; done
        kill -INT "$pid"
        until [ "$(wc -l <"$tmp/answers")" = $answer ]; do sleep 0.02; kill -0 "$pid" || return 1; done
    done
    echo /exit >&9
    exec 9>&-
    wait "$pid"
}
check "Ctrl-C stops an answer, not chat" interrupted

# A model with layers whose states cannot be trimmed: the end of an answer that is rendered differently is computed again.
hybrid=$tmp/hybrid
cp -r test/model/lm/qwen3_5 "$hybrid" && chmod -R u+w "$hybrid" && cp "$model"/tokenizer*.json "$hybrid"
went_on() {
    local first second flags="-n 6 --logit-bias 38-1000,39-1000"
    printf 'hi\nho\n' | timeout 60 "$zellige" chat -m "$hybrid" $flags --chat-template-file <(printf '%s' "{% for m in messages %}{{ m.role[0] + '.' + m.content[:3] + ' ' }}{% endfor %}a.") >"$tmp/talk" 2>/dev/null
    first=$(sed -n 1p "$tmp/talk") second=$(sed -n 2p "$tmp/talk")
    diff <(timeout 60 "$zellige" generate -m "$hybrid" $flags --ignore-chat-template -p "u.hi a.${first:0:3} u.ho a." 2>/dev/null) <(echo "$second")
}
check "chat with a hybrid model" went_on

printf 'the quick brown fox jumps over the lazy dog. %.0s' 1 2 3 4 5 6 >"$tmp/text"
check "perplexity" says '^perplexity [0-9.]+ \+- [0-9.]+ over 269 tokens in 9 pieces' timeout 60 "$zellige" perplexity -m "$model" -f "$tmp/text" -c 32
whole() { # the loss of a text of one piece is that of the pieces' sum when there is one
    timeout 60 "$zellige" perplexity -m "$model" -f "$tmp/text" -c 1000 --json >"$tmp/json" && [ "$(field tokens)" = 269 ] && [ "$(field pieces)" = 1 ]
}
check "perplexity of one piece, as JSON" whole
printf '%s\n' '{"prompt": "abc", "choices": ["d", "e", "f"], "answer": 1}' '{"prompt": "a b", "choices": ["xyz", "c"], "answer": 0}' >"$tmp/choices"
check "choices" says '^2 questions, [0-9.]+ % right; by log-probability per byte [0-9.]+ %$' timeout 60 "$zellige" perplexity -m "$model" --choices "$tmp/choices"
echo '{"prompt": "abc", "choices": ["d"], "answer": 1}' >"$tmp/bad"
check "a question that is none" says "question 1: wanted a prompt, at least two choices" timeout 60 "$zellige" perplexity -m "$model" --choices "$tmp/bad"

echo '{"prompt": "abc", "choices": ["d", ""], "answer": 1}' >"$tmp/bad"
check "a choice that is empty" says "question 1, choice 1: wanted a text that is not empty" timeout 60 "$zellige" perplexity -m "$model" --choices "$tmp/bad"
printf '%s\n' '{"prompt": "abc", "choices": ["d", "e"], "answer": 1}' '{"prompt"}' >"$tmp/bad"
check "a question that is no JSON" says "bad, question 2:1:" timeout 60 "$zellige" perplexity -m "$model" --choices "$tmp/bad"
check "perplexity with bits that are not possible" says "kv_bits 5: wanted 0, 4 or 8" timeout 60 "$zellige" perplexity -m "$model" -f "$tmp/text" --kv-bits 5

check "no model" exits 2 "$zellige" generate -p abc
check "no prompt" exits 2 "$zellige" generate -m "$model"
check "no such folder" says '/nonexistent/config.json' "$zellige" generate -m /nonexistent -p abc
check "options out of range" exits 2 "$zellige" generate -m "$model" -p abc --top-p 2
finish
