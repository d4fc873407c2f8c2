#!/usr/bin/env python3
"""oracle_tokenizer.py BUILD [--bytes N] [--seed N] [TOKENIZER.json...] - `zellige tokenize` against Hugging Face tokenizers.

Tokenizers of every known pattern, and one of another, are trained here on the documentation, with added tokens of all flags; files
that are named are compared too. Texts: "a" + c + "1" for assigned characters, and records of mixed scripts, code, blanks and added
tokens. Ids must be the same, and so must what they decode to.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

root = pathlib.Path(__file__).parent.parent.parent
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?%s+|\p{N}%s| ?[^\s%s\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "qwen2": WORDS % (r"\p{L}", "", r"\p{L}"),
    "qwen35": WORDS % (r"[\p{L}\p{M}]", "", r"\p{L}\p{M}"),
    "llama3": WORDS % (r"\p{L}", "{1,3}", r"\p{L}"),
    "other": r"\p{Lu}?\p{Ll}+|\p{L}+|\p{N}{1,2}|[^\s\p{L}\p{N}]+|\s+",
}
SPECIALS = ["<|im_start|>", "<|im_end|>", "<think>", "  <x> ", "[MASK]", "café", "wörd"]
BLOCKS = [(0x20, 0x7F), (0xA0, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xD80), (0xE00, 0x1200), (0x1E00, 0x2070),
          (0x2070, 0x2C00), (0x3000, 0x3400), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0x300, 0x370), (0x1F300, 0x1FB00), (0x10000, 0x10400)]
BLANKS = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\u3000", "\xa0", "\x85", "\u2028", " \n \n  "]


def train(name, texts):
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=name == "gpt2", use_regex=name in ("gpt2", "smollm"))
    if name in PATTERNS:
        steps = [pre_tokenizers.Split(Regex(PATTERNS[name]), "isolated"), byte_level]
        tokenizer.normalizer = normalizers.NFC()
    else:
        steps = [pre_tokenizers.Digits(individual_digits=True), byte_level] if name == "smollm" else [byte_level]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=2000, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("  <x> ", normalized=False), AddedToken("café", normalized=True),
                          AddedToken("[MASK]", lstrip=True, rstrip=name == "qwen2", normalized=False), AddedToken("wörd", single_word=True)])
    return tokenizer


def words(r):
    out, block = [], r.choice(BLOCKS)
    for _ in range(r.randrange(1, 200)):
        block = r.choice(BLOCKS) if r.random() < 0.1 else block
        word = "".join(chr(r.randrange(*block)) for _ in range(r.randrange(1, 9)))
        word += r.choice(["'s", "'T", "'RE", "'ll", "'\u017f", "'Ve"]) if r.random() < 0.1 else ""
        word += str(r.randrange(10 ** r.randrange(1, 12))) if r.random() < 0.1 else ""
        word += chr(r.choice([0x301, 0x308, 0x327, 0x323, 0x5B0, 0x93C, 0x1161, 0x11A8])) if r.random() < 0.1 else ""
        out += [word, r.choice(BLANKS) if r.random() < 0.3 else " ", r.choice(SPECIALS) if r.random() < 0.05 else ""]
    return "".join(out)


def records(r, texts, limit):
    total = 0
    while total < limit:
        if r.random() < 0.5:
            text = r.choice(texts)
            at = r.randrange(len(text))
            text = text[at : at + r.randrange(20, 5000)]
            cut = r.randrange(len(text) + 1)
            text = text[:cut] + r.choice(SPECIALS) + text[cut:]
        else:
            text = words(r)
        yield text.replace("\0", "")
        total += len(text.encode())


def compare(build, path, name, tokenizer, texts):
    fed = b"".join(t.encode() + b"\0" for t in texts)
    done = subprocess.run([f"{build}/zellige", "tokenize", path, "-0", "--ids"], input=fed, capture_output=True, timeout=3000)
    if done.returncode:
        sys.exit(done.stderr.decode())
    lines, bad, count, spoken = done.stdout.decode().split("\n")[:-1], 0, 0, []
    if len(lines) != len(texts):
        sys.exit(f"{name}: {len(lines)} lines for {len(texts)} texts")
    for text, line in zip(texts, lines):
        want, got = tokenizer.encode(text).ids, json.loads(line)
        count += len(want)
        if want != got:
            bad += 1
            first = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
            if bad < 4:
                print(f"{name}: {text[:60]!r}: from {first} on {want[first:first + 6]}, not {got[first:first + 6]}")
        spoken += want
    sample = spoken[:20000]
    done = subprocess.run([f"{build}/zellige", "tokenize", path, "--decode"], input=str(sample).encode(), capture_output=True, timeout=600)
    decoded = done.stdout.decode() == tokenizer.decode(sample, skip_special_tokens=False)
    print(f"{name}: {len(texts)} texts, {count} tokens: {bad} texts differ{'' if decoded else '; decoded text differs'}")
    return bad + (not decoded)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("build")
    args.add_argument("files", nargs="*")
    args.add_argument("--bytes", type=int, default=300000)
    args.add_argument("--seed", type=int, default=1)
    args = args.parse_args()
    texts = [p.read_text() for p in sorted([*root.glob("doc/*.md"), *root.glob("src/graph/*.c")])]
    r = random.Random(args.seed)
    one_each = [f"a{chr(c)}1" for c in range(1, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    if not args.files and args.bytes < 10_000_000:
        one_each = r.sample(one_each, 20000)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        cases = [(name, f"{folder}/{name}.json", train(name, texts)) for name in (*PATTERNS, "gpt2", "smollm")]
        for _, path, tokenizer in cases:
            tokenizer.save(path)
        cases += [(pathlib.Path(f).name, f, Tokenizer.from_file(f)) for f in args.files]
        for name, path, tokenizer in cases:
            failed += compare(args.build, path, name, tokenizer, one_each + list(records(r, texts, args.bytes)))
    sys.exit(failed > 0)


main()
