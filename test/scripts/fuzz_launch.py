#!/usr/bin/env python3
"""fuzz_launch.py [BUILD [COUNT [SEED]]] - scripts/launch_tpu.sh --render with hostile texts for each of its arguments and
variables: quotes, $(...), line feeds, escape sequences, YAML and options, alone and within texts that would be right.

A text is refused, with a message that is safe to print and nothing on standard output, or the YAML has the same lines as
that of right texts, with nothing in them but letters that neither YAML nor a shell takes for anything else.
"""

import os
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path((sys.argv[1:] or ["build"])[0]).resolve()
COUNT, SEED = int((sys.argv[2:] or [120])[0]), int((sys.argv[3:] or [1])[0])
GOOD = {"accelerator": "tpu-v6e-8", "experiment": "gemm", "ZL_SKY_INFRA": "gcp/us-east5", "ZL_SKY_OPTIONS": "-DZL_LEVELS=scalar",
        "ZL_SKY_SUITE": "test/cloud/tiny.json", "ZL_SKY_WAIT": "100", "ZL_SKY_SPOT": "yes",
        "ZL_SKY_IDLE": "30"}
HOSTILE = ['"', "'", "`id`", "$(id)", "${HOME}", "\n", "\r\n", "\nrun: |\n  id\n", ": ", " #", "- ", "&a", "*a", "!x", "|", ">", ";", "&&",
           "\\", "\\\\1", "&", "%", "@SUITE@", "@RESOURCES@", "--", "-e", "..", "/", "../../x", "\x1b[2J", "\x7f", "\t", " ", "{}", "[x]",
           "é", "\u202e", "A" * 300, "=", "-DX=$(id)", "-DX='y'", "~", "?", "*", "<(id)", "0x8", "-1", "00000000000000000008"]
SAFE = re.compile(r"[A-Za-z0-9_.,:+/= -]*")
choose = random.Random(SEED)


def hostile(good):
    """A hostile piece instead of the text, or at any place in it."""
    piece = "".join(choose.choices(HOSTILE, k=choose.randint(1, 2)))
    at = choose.randint(0, len(good))
    return choose.choice([piece, good[:at] + piece + good[at:], good + piece])


def render(values):
    env = dict(os.environ, ZELLIGE=str(BUILD / "zellige"), **{name: value for name, value in values.items() if name.startswith("ZL_")})
    return subprocess.run([ROOT / "scripts" / "launch_tpu.sh", "--render", values["accelerator"], values["experiment"]], env=env, capture_output=True, timeout=60)


def wrong(values, ran, lines):
    if ran.returncode:
        message = ran.stderr.decode(errors="surrogateescape")
        if ran.stdout or not message.strip():
            return "refused, but with output or without a message"
        return None if re.fullmatch(r"[ -~\n]*", message) else f"a message with control characters: {message!r}"
    if not all(SAFE.fullmatch(value) for value in values.values()):
        return "taken"
    return None if ran.stdout.count(b"\n") == lines else "the YAML has other lines"


lines = render(GOOD).stdout.count(b"\n")
failed = int(lines < 20)
for _ in range(COUNT):
    values = dict(GOOD)
    for name in choose.sample(sorted(values), choose.randint(1, 2)):
        values[name] = hostile(values[name])
    if why := wrong(values, render(values), lines):
        failed += 1
        print(f"{why}: {values}")
print(f"seed {SEED}\n{COUNT - failed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
