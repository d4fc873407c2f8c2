"""Cases of single commands of the BM1690 in seeded random shapes and values, as device C: one file for each group of commands.

A case is a function of device C: it loads operands to local memory, gives one command, and stores what came out. The same text
runs on the vendor's model and on our emulator. Values hold each dtype's corner cases; shapes are ragged.
"""

import numpy as np

LANES, VECTOR = 64, 64
# name: the device API's name, numpy's type of that size (the bits, where numpy has no such type)
DTYPES = {
    "f32": ("DT_FP32", np.float32), "f16": ("DT_FP16", np.float16), "bf16": ("DT_BFP16", np.uint16),
    "e4m3": ("DT_FP8E4M3", np.uint8), "e5m2": ("DT_FP8E5M2", np.uint8), "i32": ("DT_INT32", np.int32),
    "u32": ("DT_UINT32", np.uint32), "i16": ("DT_INT16", np.int16), "u16": ("DT_UINT16", np.uint16),
    "i8": ("DT_INT8", np.int8), "u8": ("DT_UINT8", np.uint8),
}
INTS = ("i32", "u32", "i16", "u16", "i8", "u8")
FLOATS = ("f32", "f16", "bf16")
# Bits of each float format that deserve care: signed zeros, subnormals, one, the largest numbers, infinities, NaNs.
SPECIAL = {
    "f32": (0, 1 << 31, 1, 0x80000001, 0x007fffff, 0x00800000, 0x3f800000, 0xbf800000, 0x3f000000, 0x40200000, 0xc0200000,
            0x477fe000, 0x477ff000, 0x4effffff, 0x4f000000, 0xcf000000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
            0xffc00001, 0x7f800001),
    "f16": (0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x3800, 0x4100, 0xc100, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00,
            0xfe01, 0x7c01),
    "bf16": (0, 0x8000, 1, 0x8001, 0x007f, 0x0080, 0x3f80, 0xbf80, 0x3f00, 0x4020, 0xc020, 0x477f, 0x4780, 0x7f7f, 0x7f80, 0xff80,
             0x7fc0, 0xffc1),
    "e4m3": (0, 0x80, 1, 7, 8, 0x38, 0xb8, 0x7e, 0xfe, 0x7f, 0xff),
    "e5m2": (0, 0x80, 1, 3, 4, 0x3c, 0xbc, 0x7b, 0xfb, 0x7c, 0xfc, 0x7d, 0xff),
}


def code(dtype):
    return DTYPES[dtype][0]


def size(dtype):
    return np.dtype(DTYPES[dtype][1]).itemsize


def bits_type(dtype):
    return f"u{size(dtype)}"


def values(rng, dtype, shape):
    """Numbers of a dtype: a third of them corner cases, a third of any bits, a third near one or small."""
    width, count = 8 * size(dtype), int(np.prod(shape))
    drawn = rng.integers(0, 1 << width, count, dtype=np.uint64)
    if dtype in SPECIAL:
        special = np.array(SPECIAL[dtype], np.uint64)
        near = {"f32": lambda: rng.normal(0, 30, count).astype(np.float32).view("u4"),
                "f16": lambda: rng.normal(0, 30, count).astype(np.float16).view("u2"),
                "bf16": lambda: rng.normal(0, 30, count).astype(np.float32).view("u4") >> 16}.get(dtype, lambda: drawn)()
    else:
        special = np.array([0, 1, 2, (1 << width) - 1, (1 << width) - 2, 1 << (width - 1), (1 << (width - 1)) - 1], np.uint64)
        near = rng.integers(-100, 101, count).astype(np.int64).view(np.uint64) & np.uint64((1 << width) - 1)
    kind = rng.integers(0, 3, count)
    drawn = np.where(kind == 0, special[rng.integers(0, len(special), count)], np.where(kind == 1, drawn, near))
    return drawn.astype(bits_type(dtype)).view(DTYPES[dtype][1]).reshape(shape)


def dims(shape):
    return "&(dim4){" + ", ".join(map(str, shape)) + "}"


def pair(h, w):
    return f"&(dim2){{{h}, {w}}}"


def scalar(value, dtype):
    return f"(scalar_t){{.u32 = {int(np.asarray(value, DTYPES[dtype][1]).view(bits_type(dtype))):#x}}}"


class Local:
    """A tensor in local memory; `layout` is aligned, compact or line."""

    def __init__(self, address, shape, dtype, layout):
        self.address, self.shape, self.dtype, self.layout = address, tuple(shape), dtype, layout
        n, c, h, w = self.shape
        vector = VECTOR // size(dtype)
        up = lambda count: -(-count // vector) * vector
        row = up(w) if layout == "line" else w
        channel = up(h * w) if layout == "aligned" else h * row
        self.strides = (-(-c // LANES) * channel, channel, row, 1)
        self.bytes = n * self.strides[0] * size(dtype)

    def stride(self):
        return "NULL" if self.layout == "aligned" else dims(self.strides)

    def __str__(self):
        return f"{self.address:#x}"


class Case:
    """A function of device C with its inputs; outputs are their sizes, or bytes that were there before."""

    def __init__(self, name, rng):
        self.name, self.rng, self.inputs, self.outputs, self.lines, self.used, self.places = name, rng, [], [], [], 0, []

    def room(self, shape, dtype, layout="aligned"):
        local = Local(self.used, shape, dtype, layout)
        self.used += -(-local.bytes // VECTOR) * VECTOR
        return local

    def place(self, data, output=False):
        """Device memory with these bytes, or of this size; a name for it in the text."""
        (self.outputs if output else self.inputs).append(data)
        self.places.append(output)
        return f"@{len(self.places) - 1}@"

    def load(self, data, dtype, layout="aligned"):
        data = np.ascontiguousarray(data, DTYPES[dtype][1])
        local = self.room(data.shape, dtype, layout)
        self.call("tpu_gdma_cpy_S2L", local, self.place(data.tobytes()), dims(data.shape), local.stride(), None, code(dtype))
        return local

    def drawn(self, shape, dtype, layout="aligned"):
        return self.load(values(self.rng, dtype, shape), dtype, layout)

    def store(self, local):
        place = self.place(int(np.prod(local.shape)) * size(local.dtype), True)
        self.call("tpu_gdma_cpy_L2S", place, local, dims(local.shape), None, local.stride(), code(local.dtype))

    def call(self, name, *operands):
        text = [{None: "NULL", True: "true", False: "false"}.get(o, str(o)) if o is None or isinstance(o, bool) else str(o)
                for o in operands]
        self.lines.append(f"    {name}({', '.join(text)});")

    def text(self, index):
        """The function. Inputs come before outputs in the arguments, whatever the order of their places was."""
        order = [i for i, output in enumerate(self.places) if not output] + [i for i, output in enumerate(self.places) if output]
        body = "\n".join(self.lines)
        for at, place in enumerate(order):
            body = body.replace(f"@{place}@", f"a[{at}]")
        return (f"// {self.name}\nvoid case_{index}(const void *args) {{\n    const unsigned long long *a = args;\n"
                f"    tpu_initialize();\n{body}\n    tpu_poll();\n}}\n")


def group_text(cases):
    return '#include "tpu_kernel.h"\n\n' + "\n".join(case.text(i) for i, case in enumerate(cases))


class Group:
    """Collects the cases of one group."""

    def __init__(self, seed):
        self.rng, self.cases = np.random.default_rng(seed), []

    def case(self, name):
        self.cases.append(Case(name, self.rng))
        return self.cases[-1]

    def pick(self, *choices):
        return choices[self.rng.integers(0, len(choices))]

    def shape(self, most=96):
        """A shape with few elements, of 1 to 4 axes that are not 1."""
        c, rest = int(self.pick(1, 2, 5, 65)), most
        w = int(self.rng.integers(1, max(2, rest // c + 1)))
        h = int(self.pick(1, 1, 2, 3)) if c * w * 3 <= rest * 2 else 1
        return (int(self.pick(1, 1, 2)) if c * w * h * 2 <= rest * 2 else 1, c, h, w)


# Groups ----------------------------------------------------------------------------------------------------------------


def above_least(data):
    """The same without the least number of 32 bits."""
    return np.maximum(data, data.dtype.type(-(2 ** 31) + 1)) if data.dtype == np.int32 else data


def integer(g):
    for op in ("add", "sub", "mul"):
        for a, b in (("i32", "i32"), ("u32", "u32"), ("i16", "i16"), ("u16", "u16"), ("i8", "i8"), ("u8", "u8"), ("i32", "i8"), ("u8", "i8"),
                     ("i32", "u32"), ("u16", "i32")):
            for saturates in (False, True):
                signed = "i" in a + b or op == "sub"
                dst = g.pick(*(("i32", "i16", "i8") if signed else ("u32", "u16", "u8")))
                shift, mode = int(g.pick(0, 0, 1, 5, -1, -3, -7)), int(g.rng.integers(0, 7))
                shape = g.shape()
                c = g.case(f"int_{op} {dst} {a} {b} shift {shift} mode {mode} saturation {saturates}")
                # The square of the least number, shifted, is beyond 64 bits: the model has no rule for it.
                x, y, z = c.drawn(shape, a), c.load(above_least(values(g.rng, b, shape)), b), c.room(shape, dst)
                c.call(f"tpu_bdc_int_{op}", z, x, y, dims(shape), None, None, None, code(dst), code(a), code(b), shift, mode, saturates)
                c.store(z)
    for op in ("add_C", "sub_C", "C_sub", "mul_C"):
        for a in INTS:
            dst = "i32" if a[0] == "i" or "sub" in op else "u32"
            shift, mode, saturates, shape = int(g.pick(0, 2, -2)), int(g.rng.integers(0, 7)), bool(g.pick(0, 1)), g.shape()
            c = g.case(f"int_{op} {dst} {a} shift {shift} mode {mode} saturation {saturates}")
            x, z = c.drawn(shape, a), c.room(shape, dst)
            number = above_least(values(g.rng, a, ()))
            c.call(f"tpu_bdc_int_{op}", z, x, scalar(number, a), dims(shape), None, None, code(dst), code(a), code(a), shift, mode, saturates)
            c.store(z)


def with_tensor_and_scalar(g, op, dtype):
    """An op of one dtype on two tensors, and on a tensor and a scalar."""
    shape = g.shape()
    c = g.case(f"{op} {dtype}")
    x, y, z = c.drawn(shape, dtype), c.drawn(shape, dtype), c.room(shape, dtype)
    c.call(f"tpu_bdc_{op}", z, x, y, dims(shape), None, None, None, code(dtype))
    c.store(z)
    c = g.case(f"{op}_C {dtype}")
    x, z = c.drawn(shape, dtype), c.room(shape, dtype)
    c.call(f"tpu_bdc_{op}_C", z, x, scalar(values(g.rng, dtype, ()), dtype), dims(shape), None, None, code(dtype))
    c.store(z)


def bitwise(g):
    for op in ("and", "or", "xor"):
        for dtype in (*INTS, *FLOATS):
            with_tensor_and_scalar(g, op, dtype)
    for dtype in INTS:
        shape = g.shape()
        c = g.case(f"not {dtype}")
        x, z = c.drawn(shape, dtype), c.room(shape, dtype)
        c.call("tpu_bdc_not", z, x, dims(shape), None, None, code(dtype))
        c.store(z)
    for op, dtypes in (("arithmetic_shift", ("i32", "i16", "i8", "u32")), ("logical_shift", ("u32", "u16", "u8"))):
        for dtype in dtypes:
            for amount in (a for a in ("i8", "i16", "i32") if size(a) <= size(dtype)):
                shape, width, mode = g.shape(), 8 * size(dtype), int(g.rng.integers(0, 7))
                c = g.case(f"{op} {dtype} {amount} mode {mode}")
                x, z = c.drawn(shape, dtype), c.room(shape, dtype)
                y = c.load(g.rng.integers(-width, width, shape), amount)
                c.call(f"tpu_bdc_{op}", z, x, y, dims(shape), None, None, None, code(dtype), code(dtype), code(amount), mode)
                c.store(z)
                by = int(g.rng.integers(-width, width))
                c = g.case(f"{op}_C {dtype} by {by} mode {mode}")
                x, z = c.drawn(shape, dtype), c.room(shape, dtype)
                c.call(f"tpu_bdc_{op}_C", z, x, by, dims(shape), None, None, code(dtype), code(dtype), mode)
                c.store(z)


def compare(g):
    for op in ("greater", "less", "equal", "greater_equal", "less_equal", "not_equal"):
        for dtype in (*INTS, *FLOATS):
            dst = g.pick(*(d for d in ("u8", "i8", "u16", "i32", "f32") if size(d) <= size(dtype)))
            true, shape = scalar(1, dst), g.shape()
            c = g.case(f"{op} {dst} {dtype}")
            x, y, z = c.drawn(shape, dtype), c.drawn(shape, dtype), c.room(shape, dst)
            c.call(f"tpu_bdc_{op}", z, x, y, true, dims(shape), None, None, None, code(dst), code(dtype))
            c.store(z)
            c = g.case(f"{op}_C {dst} {dtype}")
            x, z = c.drawn(shape, dtype), c.room(shape, dst)
            c.call(f"tpu_bdc_{op}_C", z, x, scalar(values(g.rng, dtype, ()), dtype), true, dims(shape), None, None, code(dst), code(dtype))
            c.store(z)
    for op in ("max", "min"):
        for dtype in (*INTS, *FLOATS):
            with_tensor_and_scalar(g, op, dtype)


def select(g):
    for op in ("greater", "less", "equal"):
        for dtype in (*INTS, *FLOATS):
            for tensors in (False, True):
                dst, shape = g.pick("f32", "f16", "bf16", "i32", "u8", "i16"), g.shape()
                c = g.case(f"{op}_select {dtype} to {dst} {'tensors' if tensors else 'scalars'}")
                tensor = lambda t: f"&(variable_t){{TENSOR, {{.addr = {t}}}}}"
                number = lambda t: f"&(variable_t){{SCALAR, {{.scalar = {scalar(values(g.rng, t, ()), t)}}}}}"
                x, y = c.drawn(shape, dtype), c.drawn(shape, dtype)
                chosen = [tensor(c.drawn(shape, dst)) if tensors else number(dst) for _ in range(2)]
                z = c.room(shape, dst)
                c.call(f"tpu_bdc_{op}_select", z, tensor(x), tensor(y) if tensors else number(dtype), *chosen, dims(shape), code(dtype), code(dst))
                c.store(z)


    for op in ("maximum_greater", "minimum_less"):
        for dtype in (*INTS, *FLOATS):
            dst, shape = g.pick("i32", "f16", "u8"), g.shape()
            c = g.case(f"{op}_select {dtype} with {dst}")
            given = [c.drawn(shape, d) for d in (dtype, dtype, dst, dst)]
            z, chosen = c.room(shape, dtype), c.room(shape, dst)
            c.call(f"tpu_bdc_{op}_select", z, chosen, *(f"&(variable_t){{TENSOR, {{.addr = {t}}}}}" for t in given), dims(shape), code(dtype), code(dst))
            c.store(z)
            c.store(chosen)


def cast(g):
    for a in DTYPES:
        for b in DTYPES:
            for mode in () if a == b else {0, int(g.rng.integers(1, 5))}:
                shape = g.shape()
                c = g.case(f"cast {a} to {b} mode {mode}")
                x, z = c.drawn(shape, a), c.room(shape, b)
                c.call("tpu_bdc_cast", z, x, dims(shape), None, None, code(b), code(a), mode)
                c.store(z)


def unary(g):
    for op in ("abs", "neg"):
        for dtype in (*INTS, *FLOATS):
            shape = g.shape()
            c = g.case(f"{op} {dtype}")
            x, z = c.drawn(shape, dtype), c.room(shape, dtype)
            c.call(f"tpu_bdc_{op}", z, x, dims(shape), None, None, code(dtype))
            c.store(z)
    for dtype in FLOATS:
        for op, mode in (("fp_floor", ()), ("fp_ceil", ()), *(("fp_round", (m,)) for m in range(5))):
            shape = g.shape()
            c = g.case(f"{op} {dtype} {mode}")
            x, z = c.drawn(shape, dtype), c.room(shape, dtype)
            c.call(f"tpu_bdc_{op}", z, x, dims(shape), None, None, code(dtype), *mode)
            c.store(z)
        for op in ("add", "sub", "mul"):
            shape = g.shape()
            c = g.case(f"fp_{op} {dtype}")
            x, y, z = c.drawn(shape, dtype), c.drawn(shape, dtype), c.room(shape, dtype)
            c.call(f"tpu_bdc_fp_{op}", z, x, y, dims(shape), None, None, None, code(dtype))
            c.store(z)


def move(g):
    for dtype in ("f32", "f16", "u8"):
        for op in ("cw_trans", "wc_trans"):
            for _ in range(3):
                n, c0, h, w = int(g.pick(1, 2)), int(g.pick(3, 20, 70)), int(g.pick(1, 2)), int(g.pick(1, 9, 33, 66))
                c = g.case(f"{op} {dtype} {(n, c0, h, w)}")
                x = c.load(np.arange(n * c0 * h * w).reshape(n, c0, h, w) % 251, dtype)
                z = c.room((n, w, h, c0), dtype, "line" if op == "cw_trans" else "aligned")
                c.call(f"tpu_bdc_{op}", z, x, dims(z.shape), code(dtype))
                c.store(z)
        shape = (int(g.pick(1, 2)), int(g.pick(1, 17, 64)), int(g.pick(1, 3)), int(g.pick(1, 21)))
        c = g.case(f"npu_bcast {dtype} {shape}")
        x, z = c.drawn((shape[0], 1, *shape[2:]), dtype), c.room(shape, dtype)
        c.call("tpu_bdc_npu_bcast", z, x, dims(shape), code(dtype))
        c.store(z)
        for axis in range(4):
            shape = g.shape()
            c = g.case(f"reverse_S2L {dtype} axis {axis}")
            z = c.room(shape, dtype)
            c.call("tpu_gdma_reverse_S2L", z, c.place(values(g.rng, dtype, shape).tobytes()), dims(shape), None, None, axis, code(dtype))
            c.store(z)
        c = g.case(f"reverse_L2S {dtype}")
        x = c.drawn(shape, dtype)
        c.call("tpu_gdma_reverse_L2S", c.place(int(np.prod(shape)) * size(dtype), True), x, dims(shape), None, None, 1, code(dtype))
    for start, step in ((0, 1), (7, -3), (2147483600, 11)):
        num, lanes = int(g.rng.integers(1, 60)), int(g.pick(1, 3, 64))
        c = g.case(f"arithmetic_sequence_bcast {start} {step} {num}")
        z = c.room((1, lanes, 1, num), "i32")
        c.call("tpu_bdc_arithmetic_sequence_bcast", z, lanes, start, step, num)
        c.store(z)
        num = int(g.pick(5, 64, 150))
        for op, layout in (("distribute", "compact"), ("distribute_aligned", "aligned")):
            c = g.case(f"arithmetic_sequence_{op} {start} {step} {num}")
            z = c.room((1, num, 1, 1), "i32", layout)
            c.call(f"tpu_bdc_arithmetic_sequence_{op}", z, start, step, num)
            c.store(z)
        num, start = int(g.pick(5, 20)), start % 1000
        c = g.case(f"arithmetic_sequence_general {start} {step} {num}")
        z, work = c.room((1, lanes, 1, num), "i32"), c.room((1, LANES, 1, 16), "i32")
        c.call("tpu_bdc_arithmetic_sequence_general", z, work, lanes, start, step, num)
        c.store(z)


def gather(g):
    for dtype, index in (("f32", "u16"), ("f16", "u8"), ("u8", "u16"), ("i32", "u8")):
        n, ch, table, w = int(g.pick(1, 2)), int(g.pick(3, 66)), int(g.pick(7, 20)), int(g.pick(5, 12))
        shape = (n, ch, 1, w)
        c = g.case(f"w_gather {dtype} {index}")
        t, i, z = c.drawn((n, ch, 1, table), dtype), c.load(g.rng.integers(0, table, (1, w, 1, 1)), index, "compact"), c.room(shape, dtype)
        c.call("tpu_bdc_w_gather", z, t, i, dims(shape), table, code(dtype), code(index))
        c.store(z)
        c = g.case(f"w_scatter {dtype} {index}")
        z, x = c.drawn((n, ch, 1, table), dtype), c.drawn(shape, dtype)
        i = c.load(g.rng.integers(0, table, (1, w, 1, 1)), index, "compact")
        c.call("tpu_bdc_w_scatter", z, x, i, dims(z.shape), w, code(dtype), code(index))
        c.store(z)
        c = g.case(f"batch_bcast_w_gather {dtype} {index}")
        t, i, z = c.drawn((1, ch, 1, table), dtype), c.load(g.rng.integers(0, table, shape), index), c.room(shape, dtype)
        c.call("tpu_bdc_batch_bcast_w_gather", z, t, i, dims(shape), table, code(dtype), code(index), False)
        c.store(z)
        c = g.case(f"batch_bcast_w_scatter {dtype} {index}")
        z, x, i = c.drawn((n, ch, 1, table), dtype), c.drawn((1, ch, 1, w), dtype), c.load(g.rng.integers(0, table, shape), index)
        c.call("tpu_bdc_batch_bcast_w_scatter", z, x, i, dims(z.shape), w, code(dtype), code(index), False)
        c.store(z)
        rows, h = int(g.pick(3, 6)), int(g.pick(2, 5))
        c = g.case(f"batch_bcast_h_gather {dtype} {index}")
        t, i = c.drawn((1, ch, rows, 3), dtype, "line"), c.load(g.rng.integers(0, rows, (n, ch, h, 1)), index)
        z = c.room((n, ch, h, 3), dtype, "line")
        c.call("tpu_bdc_batch_bcast_h_gather", z, t, i, dims(z.shape), rows, code(dtype), code(index), False)
        c.store(z)
    for dtype in ("f32", "f16", "u8"):
        ch, rows, h, w = int(g.pick(1, 3)), int(g.pick(5, 9)), int(g.pick(3, 8)), int(g.pick(1, 11))
        numbers = lambda count: values(g.rng, dtype, (1, ch, count, w)).tobytes()
        index = g.rng.integers(0, rows + 2, (1, ch, h, 1)).astype(np.uint32)
        for local in (False, True):
            c = g.case(f"h_gather_S2L {dtype} {'local' if local else 'global'} index")
            i = c.load(index, "u32") if local else c.place(index.tobytes())
            z = c.room((1, ch, h, w), dtype)
            c.call("tpu_gdma_h_gather_S2L", z, c.place(numbers(rows)), i, local, scalar(5, dtype), dims(z.shape), rows, None, None, None, code(dtype))
            c.store(z)
        c = g.case(f"h_gather_S2S {dtype}")
        c.call("tpu_gdma_h_gather_S2S", c.place(ch * h * w * size(dtype), True), c.place(numbers(rows)), c.place(index.tobytes()), False,
               scalar(3, dtype), dims((1, ch, h, w)), rows, None, None, None, code(dtype))
        index = g.rng.integers(0, h, (1, ch, rows, 1)).astype(np.uint32)
        c = g.case(f"h_scatter_L2S {dtype}")
        x, i = c.drawn((1, ch, rows, w), dtype), c.load(index, "u32")
        c.call("tpu_gdma_h_scatter_L2S", c.place(numbers(h), True), x, i, True, dims((1, ch, h, w)), rows, None, None, None, code(dtype))
    for dtype in ("f32", "f16", "bf16", "i32"):
        ch, rows, h, w = 2, 6, 4, 5
        for adds in (0, 1):
            c = g.case(f"h_scatter_S2S_ext {dtype} add {adds}")
            c.call("tpu_gdma_h_scatter_S2S_ext", c.place(small(g, dtype, (ch, h, w)).tobytes(), True), c.place(small(g, dtype, (ch, rows, w)).tobytes()),
                   c.place(g.rng.integers(0, h, (1, ch, rows, 1)).astype(np.uint32).tobytes()), False, dims((1, ch, h, w)), rows, 0, adds, None,
                   None, None, code(dtype))
    for dtype, mask in (("f32", "u8"), ("f16", "u16"), ("u8", "u32")):
        shape = g.shape()
        kept = (g.rng.random(shape) < 0.4)
        c = g.case(f"mask_select_L2S {dtype} {mask}")
        x, k = c.drawn(shape, dtype), c.load(kept * 3, mask)
        c.call("tpu_gdma_mask_select_L2S", c.place(bytes(int(np.prod(shape)) * size(dtype)), True), x, k, 1, dims(shape), code(dtype), code(mask))
        c = g.case(f"nonzero_L2S {mask}")
        k = c.load(kept * 3, mask)
        c.call("tpu_gdma_nonzero_L2S", c.place(bytes(int(np.prod(shape)) * 4), True), k, dims(shape), code(mask), 9)


def small(g, dtype, shape):
    """Numbers near one, without corner cases."""
    if dtype == "bf16":
        return (g.rng.normal(0, 4, shape).astype(np.float32).view("u4") >> 16).astype("u2")
    return (g.rng.normal(0, 40 if dtype[0] == "i" else 4, shape)).astype(DTYPES[dtype][1])


def reduce_l2(g):
    for dtype in ("f32", "f16", "bf16", "i32"):
        for opcode in ("MAX", "MIN", "ADD", "NOP") + (("MUL",) if dtype != "i32" else ()):
            for source in ("L12L2", "S2L2"):
                shape = g.shape(48)
                c = g.case(f"cpy_reduce_{source} {dtype} {opcode}")
                count, place = int(np.prod(shape)), "tpu_l2_sram_get_start_addr()"
                c.call("tpu_gdma_cpy_S2S", place, c.place(values(g.rng, dtype, shape).tobytes()), dims(shape), None, None, code(dtype))
                x = c.drawn(shape, dtype) if source == "L12L2" else c.place(values(g.rng, dtype, shape).tobytes())
                c.call(f"tpu_gdma_cpy_reduce_{source}", place, x, dims(shape), None, None, code(dtype), "ALL_REDUCE_PSUM_WR", f"ALL_REDUCE_{opcode}")
                c.call("tpu_gdma_cpy_S2S", c.place(count * size(dtype), True), place, dims(shape), None, None, code(dtype))


def sort(g):
    for dtype in ("f32", "i32", "u32"):
        for descends in (False, True):
            count = int(g.rng.integers(2, 200))
            kept = int(g.rng.integers(1, count + 1))
            data = (g.rng.normal(0, 20, count).astype(np.float32) if dtype == "f32" else g.rng.integers(0, 60, count)).astype(DTYPES[dtype][1])
            c = g.case(f"hau_sort_natural_index {dtype} {kept} of {count}")
            c.call("tpu_hau_sort_natural_index", c.place(kept * 4, True), c.place(kept * 4, True), c.place(data.tobytes()), count, kept, descends,
                   code(dtype))
            c.call("tpu_hau_poll")
            c = g.case(f"hau_sort {dtype} {kept} of {count}")
            c.call("tpu_hau_sort", c.place(kept * 4, True), c.place(data.tobytes()), count, kept, descends, code(dtype))
            c.call("tpu_hau_poll")
            data = (g.rng.normal(0, 20, (3, count)).astype(np.float32) if dtype == "f32" else g.rng.integers(0, 60, (3, count))).astype(DTYPES[dtype][1])
            c = g.case(f"hau_sort_natural_index_2d {dtype} {kept} of {count}")
            c.call("tpu_hau_sort_natural_index_2d", c.place(3 * kept * 4, True), c.place(3 * kept * 4, True), c.place(data.tobytes()), 3, count, kept,
                   descends, code(dtype))
            c.call("tpu_hau_poll")


def matrix8(g):
    def operand(c, dtype, rows, columns):
        data = values(g.rng, dtype, (1, rows, 1, columns))
        if dtype[0] == "e":  # of any exponent, without infinities and NaNs
            data = np.where((data & 0x7f) >= (0x7f if dtype == "e4m3" else 0x7c), 0x30, data).astype(np.uint8)
        return c.load(data, dtype)

    for dtype in ("i8", "u8"):
        for form in ("", "_R_trans", "_all_trans"):
            m, k, n, adds = int(g.pick(1, 5, 66)), int(g.pick(3, 40, 65)), int(g.pick(2, 17)), bool(g.pick(0, 1))
            c = g.case(f"int8_zp_mm{form} {dtype} {m} {k} {n}")
            x = operand(c, dtype, *((k, m) if form == "_all_trans" else (m, k)))
            y = operand(c, dtype, *((n, k) if form else (k, n)))
            shape = (1, n, 1, m) if form == "_all_trans" else (1, m, 1, n)
            z = c.drawn(shape, "i32") if form != "_R_trans" and adds else c.room(shape, "i32")
            zero = scalar(g.pick(0, 0, 3), dtype)
            c.call(f"tpu_bdc_int8_zp_mm{form}", z, x, y, zero, m, k, n, code(dtype), code(dtype), *(() if form == "_R_trans" else (adds,)))
            c.store(z)
    for left in ("e4m3", "e5m2"):
        for right in ("e4m3", "e5m2"):
            for form in ("", "_R_trans"):
                for out in FLOATS:
                    m, k, n = int(g.pick(1, 5, 17)), int(g.pick(3, 64, 150)), int(g.pick(2, 9))
                    adds = out == "f32" and bool(g.pick(0, 1))
                    c = g.case(f"fp8_mm{form} {left} {right} {out} {m} {k} {n} add {adds}")
                    x, y = operand(c, left, m, k), operand(c, right, *((n, k) if form else (k, n)))
                    z = c.load(small(g, out, (1, m, 1, n)), out) if adds else c.room((1, m, 1, n), out)
                    c.call(f"tpu_bdc_fp8_mm{form}", z, x, y, m, k, n, code(out), code(left), code(right), adds, False, True,
                           "(var_context_t){.scalar = {.u32 = 0x3f800000}}")
                    c.store(z)


def below_billion(data, dtype):
    """The same with finite numbers of more than 2^29 made small."""
    if dtype == "f16":
        return data
    bits, fraction = data.view(bits_type(dtype)), 23 if dtype == "f32" else 7
    exponent = bits >> fraction & 0xff
    return np.where((exponent > 127 + 29) & (exponent < 255), bits ^ (exponent ^ 120) << fraction, bits).astype(bits.dtype).view(data.dtype)


def function(g):
    """Functions that are series or steps of Newton's method, of any number."""
    for dtype in FLOATS:
        for op in ("div", "rsqrt", "sqrt", "reciprocal", "exp"):
            shape = g.shape(160)
            c = g.case(f"fp_{op} {dtype}")
            # Beyond a billion an exponential has the sign of rounding errors.
            x = c.load(below_billion(values(g.rng, dtype, shape), dtype), dtype) if op == "exp" else c.drawn(shape, dtype)
            y, z = c.drawn(shape, dtype) if op == "div" else None, c.room(shape, dtype)
            if op == "div":
                c.call("tpu_bdc_fp_div", z, x, y, dims(shape), None, None, None, code(dtype))
            elif op == "reciprocal":
                c.call("tpu_bdc_fp_reciprocal", z, x, dims(shape), None, None, code(dtype))
            elif op == "exp":
                work, more, constants = c.room(shape, dtype), c.room(shape, dtype), c.room((1, LANES, 1, 32), dtype)
                c.call("tpu_bdc_load_fp_exp_coeff", constants, code(dtype))
                c.call("tpu_bdc_fp_exp", z, x, work, more, constants, dims(shape), code(dtype))
            else:
                c.call(f"tpu_bdc_fp_{op}", z, x, dims(shape), code(dtype))
            c.store(z)


def constants(g):
    """The constants that functions read, which a command puts into every lane: 32-bit ones, 16-bit ones; and a table, which stays as it is."""
    for series, wide, half in (("exp", 10, 7), ("log", 16, 8), ("erf", 10, 10), ("sin", 32, 16), ("cos", 32, 16)):
        for dtype in FLOATS:
            c = g.case(f"constants of {series} {dtype}")
            x = c.room((1, LANES, 1, wide if dtype == "f32" else half), dtype)
            c.call(f"tpu_bdc_load_fp_{series}_coeff", x, code(dtype))
            c.store(x)
        c = g.case(f"constants of {series}")
        x = c.room((1, LANES, 1, wide), "f32")
        c.call(f"tpu_bdc_load_fp32_{series}_coeff", x)
        c.store(x)
    c = g.case("table of exp")
    x = c.drawn((1, LANES, 1, 192), "f32")
    c.call("tpu_bdc_load_fp32_exp_table", x)
    c.store(x)


def matrix16(g):
    for dtype in ("f16", "bf16"):
        for form in ("", "_R_trans", "_all_trans"):
            for out in ("f32", dtype):
                for drawn in (False, True):
                    m, k, n = int(g.pick(1, 5, 66)), int(g.pick(3, 32, 70)), int(g.pick(2, 17))
                    adds = form != "_R_trans" and out == "f32" and bool(g.pick(0, 1))
                    c = g.case(f"fp_mm{form} {dtype} {out} {m} {k} {n} add {adds} {'any bits' if drawn else ''}")
                    make = values if drawn else lambda rng, d, shape: small(g, d, shape)
                    x = c.load(make(g.rng, dtype, (1, k, 1, m) if form == "_all_trans" else (1, m, 1, k)), dtype)
                    y = c.load(make(g.rng, dtype, (1, n, 1, k) if form else (1, k, 1, n)), dtype)
                    shape = (1, n, 1, m) if form == "_all_trans" else (1, m, 1, n)
                    z = c.load(small(g, out, shape), out) if adds else c.room(shape, out)
                    sizes = (k, m, n) if form == "_all_trans" else (m, k, n)
                    c.call(f"tpu_bdc_fp_mm{form}", z, x, y, *sizes, code(out), code(dtype), *(() if form == "_R_trans" else (adds,)))
                    c.store(z)


def quiet(data, dtype):
    """The same without signalling NaNs, which a host quiets where it passes them on as floats."""
    if dtype == "f32":
        return data
    bits, infinity, bit = data.view("u2"), *{"f16": (0x7c00, 0x200), "bf16": (0x7f80, 0x40)}[dtype]
    return np.where((bits & 0x7fff) > infinity, bits | bit, bits).astype("u2").view(data.dtype)


def pool(g):
    for dtype in FLOATS:
        for op in ("max", "min", "avg"):
            for drawn in (False, True):
                n, ch, h, w = int(g.pick(1, 2)), int(g.pick(2, 65)), int(g.pick(1, 3)), int(g.pick(4, 9))
                kh, kw, sw = int(g.pick(1, h)), int(g.pick(2, w)), int(g.pick(1, 2))
                c = g.case(f"fp_{op}_pool2d {dtype} {(n, ch, h, w)} by {(kh, kw)} {'any bits' if drawn else ''}")
                x = c.load(quiet(values(g.rng, dtype, (n, ch, h, w)), dtype) if drawn else small(g, dtype, (n, ch, h, w)), dtype)
                z = c.room((n, ch, h - kh + 1, (w - kw) // sw + 1), dtype)
                one = {"f32": 0x3f800000, "f16": 0x3c00, "bf16": 0x3f80}[dtype]
                c.call(f"tpu_bdc_fp_{op}_pool2d", z, x, dims(x.shape), pair(kh, kw), "&(padding_t){0, 0, 0, 0}", pair(1, sw), pair(1, 1), code(dtype),
                       f"(scalar_t){{.u32 = {one if op == 'avg' else 0:#x}}}")
                c.store(z)


def pool8(g):
    for dtype in ("i8", "u8"):
        for op in ("max", "min", "avg"):
            for _ in range(2):
                n, ch, h, w = int(g.pick(1, 2)), int(g.pick(2, 65)), int(g.pick(1, 3)), int(g.pick(4, 9))
                kh, kw, sh, sw = int(g.pick(1, h)), int(g.pick(2, w)), 1, int(g.pick(1, 2))
                out = dtype if op != "avg" else g.pick(*(dtype[0] + bits for bits in ("8", "16", "32")))
                c = g.case(f"int8_{op}_pool2d {dtype} {out} {(n, ch, h, w)} by {(kh, kw)}")
                x = c.drawn((n, ch, h, w), dtype)
                z = c.room((n, ch, (h - kh) // sh + 1, (w - kw) // sw + 1), out)
                last = (code(out), code(dtype), 1, 0) if op == "avg" else (code(dtype), scalar(0, dtype))
                c.call(f"tpu_bdc_int8_{op}_pool2d", z, x, dims(x.shape), pair(kh, kw), "&(padding_t){0, 0, 0, 0}", pair(sh, sw), pair(1, 1), *last)
                c.store(z)


def copies(g):
    """Copies and fills by every pair of memories."""
    for dtype in ("f32", "f16", "u8"):
        bytes_of = lambda shape: values(g.rng, dtype, shape).tobytes()
        room_for = lambda shape: int(np.prod(shape)) * size(dtype)
        for form in ("L2L", "S2S"):
            shape = g.shape()
            c = g.case(f"cpy_{form} {dtype} {shape}")
            if form == "S2S":
                c.call("tpu_gdma_cpy_S2S", c.place(room_for(shape), True), c.place(bytes_of(shape)), dims(shape), None, None, code(dtype))
            else:
                x, z = c.drawn(shape, dtype), c.room(shape, dtype, "line")
                c.call("tpu_gdma_cpy_L2L", z, x, dims(shape), z.stride(), None, code(dtype))
                c.store(z)
        for order, (a, b) in (("cw", (1, 3)), ("nc", (0, 1))):
            for form in ("S2L", "L2S", "L2L", "S2S"):
                shape = g.shape()
                given = list(shape)
                given[a], given[b] = shape[b], shape[a]
                c = g.case(f"cpy_{order}_trans_{form} {dtype} {shape}")
                x = c.drawn(given, dtype) if form[0] == "L" else c.place(bytes_of(given))
                z = c.room(shape, dtype) if form[2] == "L" else c.place(room_for(shape), True)
                c.call(f"tpu_gdma_cpy_{order}_trans_{form}", z, x, dims(shape), None, None, code(dtype))
                if form[2] == "L":
                    c.store(z)
        for form in ("S2L", "L2S", "L2L"):
            shape, given = (2, 3, 2, 10), g.pick((1, 4, 6, 5), (1, 60, 1, 2), (1, 1, 1, 120))
            c = g.case(f"general_cpy_{form} {dtype} {given} as {shape}")
            x = c.drawn(given, dtype) if form[0] == "L" else c.place(bytes_of(given))
            z = c.room(shape, dtype) if form[2] == "L" else c.place(room_for(shape), True)
            c.call(f"tpu_gdma_general_cpy_{form}", z, x, dims(shape), dims(given), None, None, code(dtype))
            if form[2] == "L":
                c.store(z)
        for form in ("S2L", "L2L"):
            shape = (int(g.pick(1, 2)), int(g.pick(1, 17, 64)), int(g.pick(1, 3)), int(g.pick(1, 21)))
            given = (shape[0], 1, *shape[2:])
            c = g.case(f"channel_bcast_{form} {dtype} {shape}")
            x, z = c.drawn(given, dtype) if form[0] == "L" else c.place(bytes_of(given)), c.room(shape, dtype)
            c.call(f"tpu_gdma_channel_bcast_{form}", z, x, dims(shape), None, None, code(dtype))
            c.store(z)
        for op in ("gdma_reverse_S2S", "gdma_reverse_L2L"):
            local = op.endswith("L2L")
            for axis in (1,) if local else range(4):
                shape = g.shape()
                c = g.case(f"{op} {dtype} {shape} axis {axis}")
                x, z = (c.drawn(shape, dtype), c.room(shape, dtype)) if local else (c.place(bytes_of(shape)), c.place(room_for(shape), True))
                c.call(f"tpu_{op}", z, x, dims(shape), None, None, axis, code(dtype))
                if local:
                    c.store(z)
        for op in ("gdma_set_C_local", "bdc_set_C", "gdma_set_C_system"):
            shape = g.shape()
            c = g.case(f"{op} {dtype} {shape}")
            z = c.place(room_for(shape), True) if op.endswith("system") else c.room(shape, dtype)
            c.call(f"tpu_{op}", z, scalar(values(g.rng, dtype, ()), dtype), dims(shape), None, code(dtype))
            if isinstance(z, Local):
                c.store(z)
        count = int(g.rng.integers(1, 300))
        c = g.case(f"system_cpy {dtype} {count}")
        c.call("tpu_gdma_system_cpy", c.place(room_for(count), True), c.place(bytes_of(count)), count, code(dtype))
        c = g.case(f"system_set {dtype} {count}")
        c.call("tpu_gdma_system_set", c.place(room_for(count), True), scalar(values(g.rng, dtype, ()), dtype), count, code(dtype))
        for op in ("cpy", "cpy_cross_npu"):
            shape = g.shape()
            c = g.case(f"bdc_{op} {dtype} {shape}")
            x, z = c.drawn(shape, dtype), c.room(shape, dtype)
            c.call(f"tpu_bdc_{op}", z, x, dims(shape), *((None, None) if op == "cpy" else ()), code(dtype))
            c.store(z)


def scalars(g):
    """Float arithmetic with a scalar, and functions of f32 under their older names."""
    for dtype in FLOATS:
        for op in ("add_C", "sub_C", "C_sub", "mul_C", "div_C", "C_div"):
            for _ in range(2):
                shape = g.shape()
                c = g.case(f"fp_{op} {dtype}")
                x, z = c.drawn(shape, dtype), c.room(shape, dtype)
                c.call(f"tpu_bdc_fp_{op}", z, x, scalar(values(g.rng, dtype, ()), dtype), dims(shape), None, None, code(dtype))
                c.store(z)
        shape = g.shape()
        c = g.case(f"fp_diff_abs {dtype}")
        x, y, z = c.drawn(shape, dtype), c.drawn(shape, dtype), c.room(shape, dtype)
        c.call("tpu_bdc_fp_diff_abs", z, x, y, dims(shape), None, None, None, code(dtype))
        c.store(z)
        for op in ("fp_square", "relu"):
            shape = g.shape()
            c = g.case(f"{op} {dtype}")
            x, z = c.drawn(shape, dtype), c.room(shape, dtype)
            c.call(f"tpu_bdc_{op}", z, x, dims(shape), None, None, code(dtype))
            c.store(z)
    shape = g.shape(160)
    for op in ("rsqrt", "sqrt", "reciprocal", "C_div", "div"):
        c = g.case(f"fp32_{op}")
        x = c.drawn(shape, "f32")
        more = {"C_div": [float(np.float32(g.rng.normal(0, 30)))], "div": [c.drawn(shape, "f32")] if op == "div" else []}.get(op, [])
        strides = {"reciprocal": 2, "C_div": 2, "div": 3}.get(op, 0)
        z = c.room(shape, "f32")
        c.call(f"tpu_bdc_fp32_{op}", z, x, *more, dims(shape), *[None] * strides)
        c.store(z)


def composed(g):
    """Functions that are made of exponentials and series, which the vendor's library computes by several commands."""
    def call(name, loads, works, table, dtype, limit):
        shape = g.shape(160)
        c = g.case(f"{name} within {limit}")
        drawn = values(g.rng, "f32", shape)
        x = c.load(np.where((np.abs(drawn) <= limit) | ~np.isfinite(drawn), drawn, g.rng.normal(0, 5, shape)).astype(np.float32), "f32")
        z, work = c.room(shape, "f32"), [c.room(shape, "f32") for _ in range(works)]
        constants = [c.room((1, LANES, 1, 32), "f32") for _ in loads]
        for load, at in zip(loads, constants):
            c.call(f"tpu_bdc_load_fp_{load}_coeff", at, code("f32"))
        rest = [dims(shape)] + ([code("f32")] if dtype else [])
        if table:
            place = c.room((1, LANES, 1, 192), "f32")
            c.call("tpu_bdc_load_fp32_exp_table", place)
            rest = [place, *rest]
        c.call(f"tpu_bdc_{name}", z, x, *work, *constants, *rest)
        c.store(z)

    for limit in (20, 1e38):
        call("fp32_exp", ["exp"], 2, True, False, min(limit, 1e8))
        for name in ("sigmoid", "silu"):
            call(f"fp_{name}", ["exp"], 2, True, True, min(limit, 1e8))
        call("fp_tanh", ["exp"], 2, False, True, min(limit, 1e8))
        call("fp_log", ["log"], 1, False, True, limit)
        for name in ("sin", "cos"):
            call(f"fp_{name}", [name], 1, False, True, min(limit, 1e5))
        call("fp_erf", ["exp", "erf"], 3, False, True, min(limit, 1e3))
        call("fp_gelu", ["exp", "erf"], 4, False, True, min(limit, 1e3))


def bias(g):
    """Products of 16 bits with a bias for each column, a constant or a row in every lane."""
    for dtype in ("f16", "bf16"):
        for form in ("", "_R_trans"):
            for kind, drawn in (("none", False), ("constant", False), ("constant", True), ("row", False), ("row", True)):
                m, k, n, out = int(g.pick(1, 5, 66)), int(g.pick(3, 32, 70)), int(g.pick(2, 17)), g.pick("f32", dtype)
                adds, relu = out == "f32" and bool(g.pick(0, 1)), bool(g.pick(0, 1))
                c = g.case(f"fp_mm{form}_with_bias {dtype} {out} {m} {k} {n} bias {kind} add {adds} relu {relu} {'any bits' if drawn else ''}")
                make = values if drawn else lambda rng, d, shape: small(g, d, shape)
                x, y = c.load(make(g.rng, dtype, (1, m, 1, k)), dtype), c.load(make(g.rng, dtype, (1, n, 1, k) if form else (1, k, 1, n)), dtype)
                z = c.load(small(g, out, (1, m, 1, n)), out) if adds else c.room((1, m, 1, n), out)
                number = 0 if kind == "none" else int(np.float32(1.625).view("u4"))
                given = f"(var_context_t){{.scalar = {{.u32 = {number:#x}}}}}"
                if kind == "row":
                    row = np.repeat(make(g.rng, "f32", (1, 1, 1, n)), LANES, axis=1)
                    given = f"(var_context_t){{.addr = {c.load(row, 'f32')}}}"
                c.call(f"tpu_bdc_fp_mm{form}_with_bias", z, x, y, m, k, n, code(out), code(dtype), code("f32"), adds, kind != "row", given, relu)
                c.store(z)


def matrix32(g):
    for drawn in (False, False, True, True):
        m, k, n = int(g.pick(1, 5, 66)), int(g.pick(3, 32, 70)), int(g.pick(2, 17, 40))
        left, right, adds = int(g.pick(4, 16)), int(g.pick(4, 16)), bool(g.pick(0, 1))
        c = g.case(f"fp32_mm {m} {k} {n} columns per lane {left} {right} add {adds} {'any bits' if drawn else ''}")
        make = values if drawn else lambda rng, d, shape: small(g, d, shape)

        def matrix(rows, columns, lane_columns, data):
            local = c.room((rows, -(-columns // lane_columns), 1, lane_columns), "f32")
            if data is not None:
                c.call("tpu_gdma_matrix_S2L", local, c.place(data.tobytes()), rows, columns, lane_columns, columns, code("f32"))
            return local

        x, y = matrix(m, k, left, make(g.rng, "f32", (m, k))), matrix(k, n, right, make(g.rng, "f32", (k, n)))
        z = matrix(m, n, right, small(g, "f32", (m, n)) if adds else None)
        c.call("tpu_bdc_fp32_mm", z, x, y, 0, m, k, n, left, right, False, adds)
        c.call("tpu_gdma_matrix_L2S", c.place(m * n * 4, True), z, m, n, right, n, code("f32"))


def places(g):
    """Gathers, scatters and compactions by the other pairs of memories, sums from L2 to L2, and sorted rows."""
    for dtype, index in (("f32", "u16"), ("f16", "u8"), ("u8", "u16")):
        n, ch, h, count = int(g.pick(1, 2)), int(g.pick(3, 66)), int(g.pick(4, 9)), int(g.pick(2, 5))
        c = g.case(f"batch_bcast_h_scatter {dtype} {index}")
        z, x = c.drawn((n, ch, h, 3), dtype, "line"), c.drawn((1, ch, count, 3), dtype, "line")
        i = c.load(g.rng.integers(0, h, (n, ch, count, 1)), index)
        c.call("tpu_bdc_batch_bcast_h_scatter", z, x, i, dims(z.shape), count, code(dtype), code(index), False)
        c.store(z)
    for dtype in ("f32", "f16", "u8"):
        ch, rows, h, w = int(g.pick(1, 3)), int(g.pick(5, 9)), int(g.pick(3, 8)), int(g.pick(1, 11))
        for op in ("gather_L2S", "gather_L2L", "scatter_S2L", "scatter_S2S", "scatter_L2L"):
            scatters, local, far = op[0] == "s", op[-3] == "L", op[-1] == "S"
            index = g.rng.integers(0, h if scatters else rows + 2, (1, ch, rows if scatters else h, 1)).astype(np.uint32)
            c = g.case(f"h_{op} {dtype}")
            numbers = values(g.rng, dtype, (1, ch, rows, w))
            x = c.load(numbers, dtype) if local else c.place(numbers.tobytes())
            i, shape = c.load(index, "u32"), (1, ch, h, w)
            z = c.place(values(g.rng, dtype, shape).tobytes(), True) if far else c.drawn(shape, dtype)
            filler = () if scatters else (scalar(5, dtype),)
            c.call(f"tpu_gdma_h_{op}", z, x, i, True, *filler, dims(shape), rows, None, None, None, code(dtype))
            if not far:
                c.store(z)
    for dtype, mask in (("f32", "u8"), ("f16", "u16"), ("u8", "u32")):
        shape = g.shape()
        kept = (g.rng.random(shape) < 0.4)
        c = g.case(f"mask_select_S2S {dtype} {mask}")
        k = (kept * 3).astype(DTYPES[mask][1]).tobytes()
        c.call("tpu_gdma_mask_select_S2S", c.place(bytes(int(np.prod(shape)) * size(dtype)), True), c.place(values(g.rng, dtype, shape).tobytes()),
               c.place(k), 0, dims(shape), code(dtype), code(mask))
        c = g.case(f"nonzero_S2S {mask}")
        c.call("tpu_gdma_nonzero_S2S", c.place(bytes(int(np.prod(shape)) * 4), True), c.place(k), dims(shape), code(mask), 9)
    for dtype in ("f32", "f16", "bf16", "i32"):
        for opcode in ("MAX", "MIN", "ADD"):
            shape = g.shape(48)
            c = g.case(f"cpy_reduce_L22L2 {dtype} {opcode}")
            count = int(np.prod(shape))
            there, here = "tpu_l2_sram_get_start_addr()", "tpu_l2_sram_get_start_addr() + 4096"
            for at in (there, here):
                c.call("tpu_gdma_cpy_S2S", at, c.place(values(g.rng, dtype, shape).tobytes()), dims(shape), None, None, code(dtype))
            c.call("tpu_gdma_cpy_reduce_L22L2", there, here, dims(shape), None, None, code(dtype), "ALL_REDUCE_PSUM_WR", f"ALL_REDUCE_{opcode}")
            c.call("tpu_gdma_cpy_S2S", c.place(count * size(dtype), True), there, dims(shape), None, None, code(dtype))
    for dtype in ("f32", "i32", "u32"):
        count = int(g.rng.integers(2, 200))
        kept = int(g.rng.integers(1, count + 1))
        data = (g.rng.normal(0, 20, (3, count)) if dtype == "f32" else g.rng.integers(0, 60, (3, count))).astype(DTYPES[dtype][1])
        c = g.case(f"hau_sort_2d {dtype} {kept} of {count}")
        c.call("tpu_hau_sort_2d", c.place(3 * kept * 4, True), c.place(data.tobytes()), 3, count, kept, bool(g.pick(0, 1)), code(dtype))
        c.call("tpu_hau_poll")


GROUPS = {f.__name__: f for f in (integer, bitwise, compare, select, cast, unary, move, gather, reduce_l2, sort, matrix8, pool8, function, matrix16, pool,
                                  copies, scalars, composed, bias, places, matrix32, constants)}


def make(name, seed):
    """The cases of a group. The same seed gives the same cases."""
    group = Group([seed, list(GROUPS).index(name)])
    GROUPS[name](group)
    return group.cases
