#!/usr/bin/env bash
# text_oracles.sh BUILD - tokenizers and chat templates against Hugging Face tokenizers and jinja2, of PyPI.
. "$(dirname "$0")/lib.sh"

if ! python=$(tool/python.sh "$build" tokenizers jinja2 2>"$tmp/why"); then
    skip "tokenizers and templates" "$(tail -n 1 "$tmp/why")"
    finish
fi
programs=3000 bytes=200000 seed=1
[ -z "${ZL_LONG:-}" ] || programs=100000 bytes=20000000 seed=$RANDOM
check "tokenizers, seed $seed" "$python" test/text/oracle_tokenizer.py "$build" --bytes $bytes --seed $seed
check "templates, seed $seed" "$python" test/text/fuzz_templates.py "$build" --count $programs --seed $seed
finish
