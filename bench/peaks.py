"""peaks.py - what this CPU multiplies at most, by `zellige bench peaks` of the build that Python finds; and what that means to
attention: no time is below that of its products at the peak of their instruction, and of exp, which takes the same pipes.
"""

import functools
import importlib.util
import pathlib
import re
import subprocess


EXP = 11  # operations of vectors: to a whole number and the rest, a polynomial of degree 5, the power of two, the sum


@functools.cache
def peaks():
    """Operations per second of (one core, all at once) by dtype; empty where the program is not beside the module."""
    found = importlib.util.find_spec("zellige")
    program = pathlib.Path(found.origin).parents[2] / "zellige" if found and found.origin else None
    if not program or not program.is_file():
        return {}
    text, rates = subprocess.run([program, "bench", "peaks"], capture_output=True, text=True, check=False).stdout, {}
    for dtype, one, every in re.findall(r"^.*\s(f32|bf16)\s+([\d.]+)\s+[\d.]+\s+\S+\s+([\d.]+)\s*$", text, re.MULTILINE):
        rates[dtype] = max(rates.get(dtype, (0, 0)), (float(one) * 1e9, float(every) * 1e9))
    return rates


def attention_limit(dtype, batch, heads, queries, keys, size, causal, gradient=False, one=False):
    """Seconds; None where the peak is not known. Sums are float32, so float16 is multiplied at its rate. Gradients take five
    products beside the two of the result, and exp once more."""
    found, which = peaks(), 0 if one else 1
    products = found.get("bf16" if dtype == "bfloat16" else "f32")
    scores = batch * heads * (queries * (2 * keys - queries + 1) / 2 if causal else queries * keys)
    multiplied, raised = (7, 2) if gradient else (2, 1)
    return scores * 2 * (multiplied * size / products[which] + raised * EXP / found["f32"][which]) if products else None
