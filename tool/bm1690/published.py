"""Device C that others have generated: which function runs, and with what arguments, as far as the text tells.

Kernels of the TileLang port are written alike: a structure of arguments, a function that takes its members in their order, and in it
a descriptor of each whole tensor, with its shape and dtype. Tensors are both read and written here, as a text does not say which.
"""

import re

DTYPES = {"DT_FP32": "f32", "DT_FP16": "f16", "DT_BFP16": "bf16", "DT_INT32": "i32", "DT_UINT32": "u32", "DT_INT16": "i16",
          "DT_UINT16": "u16", "DT_INT8": "i8", "DT_UINT8": "u8", "DT_FP8E4M3": "u8", "DT_FP8E5M2": "u8"}
NUMBERS = {"int": "i32", "int32_t": "i32", "unsigned int": "u32", "uint32_t": "u32", "float": "f32"}


class Unreadable(Exception):
    """Why a text does not tell how it is run."""


def one(pattern, text, what):
    found = re.findall(pattern, text, re.S)
    if len(found) != 1:
        raise Unreadable(f"{len(found) or 'no'} {what}")
    return found[0]


def tensor(text, parameter):
    """The operand of a device address: from the descriptor of all of it."""
    parts = re.findall(r"\.shape = \{([^}]*)\}[^;]*?\.addr = %s,\s*\.dtype = (\w+)" % parameter, text)
    if not parts:
        raise Unreadable(f"no descriptor of the tensor at {parameter}")
    shape, dtype = parts[0]
    dims = [word.strip() for word in shape.split(",")]
    if not all(word.isdigit() for word in dims):
        raise Unreadable(f"the shape of {parameter} is not made of numbers: {shape.strip()}")
    if dtype not in DTYPES:
        raise Unreadable(f"{parameter} is of {dtype}")
    # Whole numbers are taken for indices: small ones are within any table.
    return f"inout:{DTYPES[dtype]}[{','.join(dims)}]" + ("" if dtype.startswith(("DT_FP", "DT_BFP")) else ":2")


def read(text):
    """Entry and operands of a text. Raises Unreadable."""
    entry = one(r"TPUKERNEL_FUNC_REGISTER\((\w+)\)", text, "function that is registered")
    body = one(r"\w+ %s\(const void ?\* ?args\) \{(.*?)\n\}" % entry, text, f"function {entry}(const void *args)")
    struct = one(r"^\s*(\w+) ?\*\w+ = ", body, "structure of arguments")
    members = dict(reversed(pair) for pair in
                   re.findall(r"([\w ]+?) (\w+);", one(r"typedef struct \{([^{}]*)\} %s;" % struct, text, f"structure {struct}")))
    called, words = one(r"\b(\w+)\(((?:\s*\w+->\w+,?)+)\)", body, "call that takes all arguments")
    order = re.findall(r"->(\w+)", words)
    names = [word.split()[-1] for word in one(r"void %s\(([^)]*)\)\s*\{" % called, text, f"function {called}").split(",")]
    operands = {}
    for member, name in zip(order, names):
        kind = members[member].strip()
        if kind not in ("global_addr_t", "u64", "uint64_t"):
            raise Unreadable(f"{member} is a number, {kind}: which one it was called with the text does not say")
        operands[member] = tensor(text, name)
    return entry, [operands[member] for member in members]


def cases(folder):
    """Every .c file below a folder that can be read: path, entry, cores, operands. The others are listed, with the reason."""
    for path in sorted(folder.rglob("*.c")):
        try:
            entry, operands = read(path.read_text())
            yield path, entry, 1, operands
        except Unreadable as error:
            print(f"{path.relative_to(folder)} is not run: {error}", flush=True)
