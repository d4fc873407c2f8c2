"""Tile kernels whose device C, as our renderer writes it, is compared with the vendor's model: texts, and how sizes are drawn.

An operand's order and a size's place in the argument structure are read from the rendered text itself.
"""

import re
import subprocess

import model

TEXTS = {}


def kernel(text, limit=0, **sizes):
    """A kernel of the tile language. Of each size, the least and the most; `limit` is that of whole numbers in inputs, or a size's name."""
    TEXTS[re.match(r"\s*kernel (\w+)", text)[1]] = (text, limit, sizes)


kernel("""kernel matmul(A: f16[M, K], B: f16[K, N]) -> (C: f16[M, N]) {
  grid bx in ceildiv(N, 64), by in ceildiv(M, 96) {
    shared a: f16[96, 32]
    shared b: f16[32, 64]
    fragment c: f32[96, 64] = 0
    pipeline k in ceildiv(K, 32) stages 2 {
      copy A[by * 96, k * 32] -> a
      copy B[k * 32, bx * 64] -> b
      gemm a, b -> c
    }
    copy c -> C[by * 96, bx * 64]
  }
}""", M=(1, 200), N=(1, 150), K=(1, 200))

kernel("""kernel left_transposed(A: bf16[K, M], B: bf16[K, N]) -> (C: bf16[M, N]) {
  grid bx in ceildiv(N, 64), by in ceildiv(M, 64) {
    shared a: bf16[32, 64]
    shared b: bf16[32, 64]
    fragment c: f32[64, 64] = 0
    pipeline k in ceildiv(K, 32) stages 2 {
      copy A[k * 32, by * 64] -> a
      copy B[k * 32, bx * 64] -> b
      gemm transpose a, b -> c
    }
    copy c -> C[by * 64, bx * 64]
  }
}""", M=(1, 150), N=(1, 150), K=(1, 150))

for word, op in ("reduce_max", "maximum"), ("reduce_sum", "add"):
    kernel("""kernel %s(x: f32[rows, n]) -> (y: f32[rows]) where n <= 512 {
  grid b in ceildiv(rows, 128) {
    shared t: f32[128, 512]
    fragment r: f32[128]
    copy x[b * 128, 0] -> t else identity(%s)
    reduce %s t -> r axis 1
    copy r -> y[b * 128]
  }
}""" % (word, op, op), rows=(1, 300), n=(1, 512))

kernel("""kernel softmax(x: f32[rows, n]) -> (y: f32[rows, n]) where n <= 384 {
  grid b in ceildiv(rows, 64) {
    shared t: f32[64, 384]
    fragment most: f32[64]
    fragment sum: f32[64]
    copy x[b * 64, 0] -> t else -inf
    reduce maximum t -> most axis 1
    map i in 64, j in 384 { t[i, j] = exp(t[i, j] - most[i]) }
    reduce add t -> sum axis 1
    map i in 64, j in 384 { t[i, j] = t[i, j] / sum[i] }
    copy t -> y[b * 64, 0]
  }
}""", rows=(1, 150), n=(1, 384))

kernel("""kernel rms_norm(x: f16[rows, n], w: f16[n]) -> (y: f16[rows, n]) where n <= 256 {
  grid b in ceildiv(rows, 64) {
    shared t: f16[64, 256]
    shared row: f16[256]
    fragment squares: f32[64, 256]
    fragment sum: f32[64]
    copy x[b * 64, 0] -> t
    copy w[0] -> row
    map i in 64, j in 256 { squares[i, j] = f32(t[i, j]) * f32(t[i, j]) }
    reduce add squares -> sum axis 1
    map i in 64, j in 256 { t[i, j] = f16(f32(t[i, j]) * rsqrt(sum[i] / f32(n) + 0.00001) * f32(row[j])) }
    copy t -> y[b * 64, 0]
  }
}""", rows=(1, 150), n=(1, 256))

kernel("""kernel gelu(x: bf16[rows, n]) -> (y: bf16[rows, n]) {
  grid bx in ceildiv(n, 128), by in ceildiv(rows, 64) {
    shared t: bf16[64, 128]
    copy x[by * 64, bx * 128] -> t
    map i in 64, j in 128 { t[i, j] = bf16(0.5 * f32(t[i, j]) * (1 + erf(f32(t[i, j]) * 0.70710678))) }
    copy t -> y[by * 64, bx * 128]
  }
}""", rows=(1, 150), n=(1, 300))

kernel("""kernel attention(Q: f16[n, 64], K: f16[n, 64], V: f16[n, 64]) -> (O: f16[n, 64]) {
  grid b in ceildiv(n, 64) {
    shared q: f16[64, 64]
    shared k: f16[64, 64]
    shared v: f16[64, 64]
    shared p: f16[64, 64]
    fragment s: f32[64, 64]
    fragment o: f32[64, 64] = 0
    fragment most: f32[64] = -inf
    fragment before: f32[64]
    fragment part: f32[64]
    fragment sum: f32[64] = 0
    copy Q[b * 64, 0] -> q
    pipeline c in b + 1 stages 2 {
      copy K[c * 64, 0] -> k
      copy V[c * 64, 0] -> v
      gemm q, transpose k -> s clear
      map i in 64, j in 64 { s[i, j] = where(b * 64 + i >= c * 64 + j, s[i, j] * 0.125, -inf) }
      map i in 64 { before[i] = most[i] }
      reduce maximum s -> most axis 1 accumulate
      map i in 64, j in 64 { s[i, j] = exp(s[i, j] - most[i]) }
      reduce add s -> part axis 1
      map i in 64 { sum[i] = sum[i] * exp(before[i] - most[i]) + part[i] }
      map i in 64, j in 64 { o[i, j] = o[i, j] * exp(before[i] - most[i]) }
      copy s -> p
      gemm p, v -> o
    }
    map i in 64, j in 64 { o[i, j] = o[i, j] / sum[i] }
    copy o -> O[b * 64, 0]
  }
}""", n=(1, 200))

kernel("""kernel linear_attention(Q: f16[heads, n, 64], K: f16[heads, n, 64], V: f16[heads, n, 64]) -> (O: f16[heads, n, 64]) {
  grid h in heads {
    shared q: f16[64, 64]
    shared k: f16[64, 64]
    shared v: f16[64, 64]
    shared p: f16[64, 64]
    shared past: f16[64, 64]
    fragment s: f32[64, 64]
    fragment o: f32[64, 64]
    fragment state: f32[64, 64] = 0
    for c in ceildiv(n, 64) {
      copy Q[h, c * 64, 0] of [1, 64, 64] -> q
      copy K[h, c * 64, 0] of [1, 64, 64] -> k
      copy V[h, c * 64, 0] of [1, 64, 64] -> v
      gemm q, transpose k -> s clear
      map i in 64, j in 64 { s[i, j] = where(i >= j, s[i, j], 0) }
      copy s -> p
      copy state -> past
      gemm p, v -> o clear
      gemm q, past -> o
      gemm transpose k, v -> state
      copy o -> O[h, c * 64, 0] of [1, 64, 64]
    }
  }
}""", heads=(1, 4), n=(1, 200))

kernel("""kernel gather(x: f32[table, 96], which: i32[n]) -> (y: f32[n, 96]) {
  grid b in ceildiv(n, 32) {
    shared rows: f32[32, 96]
    map i in 32, j in 96 {
      let at = load(which[b * 32 + i], b * 32 + i < n, 0)
      rows[i, j] = x[at, j]
    }
    copy rows -> y[b * 32, 0]
  }
}""", limit="table", table=(1, 300), n=(1, 100))

kernel("""kernel f32_product(A: f32[M, K], B: f32[N, K]) -> (C: f32[M, N]) {
  grid bx in ceildiv(N, 40), by in ceildiv(M, 48) {
    shared a: f32[48, 24]
    shared b: f32[40, 24]
    fragment sum: f32[48, 40] = 0
    for k in ceildiv(K, 24) {
      copy A[by * 48, k * 24] -> a
      copy B[bx * 40, k * 24] -> b
      gemm a, transpose b -> sum
    }
    copy sum -> C[by * 48, bx * 40]
  }
}""", M=(1, 100), N=(1, 100), K=(1, 100))

kernel("""kernel extremes(x: f32[n, 70]) -> (y: f32[n, 3]) {
  grid b in ceildiv(n, 32) {
    shared t: f32[32, 70]
    fragment most: f32[32]
    fragment least: f32[32]
    copy x[b * 32, 0] -> t
    reduce maximum t -> most axis 1
    reduce minimum t -> least axis 1
    map i in 32 {
      y[b * 32 + i, 0] = most[i] / least[i] where b * 32 + i < n
      y[b * 32 + i, 1] = sqrt(abs(most[i])) where b * 32 + i < n
      y[b * 32 + i, 2] = most[i] % (least[i] * 0.25) where b * 32 + i < n
    }
  }
}""", n=(1, 100))

kernel("""kernel int8_product(A: i8[M, K], B: i8[N, K]) -> (C: i32[M, N]) {
  grid bx in ceildiv(N, 64), by in ceildiv(M, 64) {
    shared a: i8[64, 64]
    shared b: i8[64, 64]
    fragment c: i32[64, 64] = 0
    for k in ceildiv(K, 64) {
      copy A[by * 64, k * 64] -> a
      copy B[bx * 64, k * 64] -> b
      gemm a, transpose b -> c
    }
    copy c -> C[by * 64, bx * 64]
  }
}""", M=(1, 150), N=(1, 150), K=(1, 200))

kernel("""kernel edges(x: u8[rows, n]) -> (y: i32[n, rows]) {
  grid bx in ceildiv(n, 48), by in ceildiv(rows, 80) {
    shared t: i32[80, 48]
    copy x[by * 80, bx * 48] -> t
    map i in 80, j in 48 { t[i, j] = where((i + j) % 3 == 0, -t[i, j], t[i, j] * 5) }
    map i in 80, j in 48 { y[bx * 48 + j, by * 80 + i] = t[i, j] where bx * 48 + j < n & by * 80 + i < rows }
  }
}""", rows=(1, 200), n=(1, 100))


def render(build, text, stage="bm1690"):
    """The device C of a tile kernel, or its text for the host."""
    return subprocess.run([f"{build}/zellige", "kernel", "show", "-", "--stage", stage], input=text, check=True, capture_output=True,
                          text=True).stdout


def tensors(text, sizes):
    """Operands as compare.py writes them, by their names."""
    inputs, outputs = re.search(r"kernel \w+\((.*?)\) -> \((.*?)\)", text).groups()
    return {name: f"{word}:{dtype}[{','.join(str(sizes.get(axis.strip(), axis.strip())) for axis in shape.split(','))}]"
            for word, parameters in (("in", inputs), ("out", outputs))
            for name, dtype, shape in re.findall(r"(\w+): (\w+)\[([^\]]*)\]", parameters)}


def cases(build, folder, rng, names=()):
    """Rendered kernels with random sizes: file, entry, cores, operands. The texts are written to `folder`."""
    for name, (text, limit, ranges) in TEXTS.items():
        if names and name not in names:
            continue
        sizes = {size: int(rng.integers(least, most + 1)) for size, (least, most) in ranges.items()}
        device_c = render(build, text)
        model.check_host(model.unpack(build), render(build, text, "bm1690_host"))
        by_name = tensors(text, sizes)
        if limit:
            by_name = {key: f"{operand}:{sizes[limit]}" if operand.startswith("in:i") else operand for key, operand in by_name.items()}
        members = re.findall(r"_Alignas\(8\) \w+ \w+; // (\w+)", re.search(r"struct \w+_arguments \{(.*?)\n\};", device_c, re.S)[1])
        path = folder / f"{name}.c"
        path.write_text(device_c)
        yield path, f"{name}_kernel", int(rng.choice([1, 2, 8])), [by_name.get(member) or f"i64:{sizes[member]}" for member in members]
