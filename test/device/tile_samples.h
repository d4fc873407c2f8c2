// tile_samples.h - tile kernels that are tried on more than one target.

#ifndef TILE_SAMPLES_H
#define TILE_SAMPLES_H

#define SAMPLE_SCALE \
    "kernel scale(a: f32[n], s: f32) -> (y: f32[n]) { map i in n { y[i] = exp(a[i]) * s } }"

#define SAMPLE_EDGES \
    "kernel edges(a: f32[n, m]) -> (y: f16[n, m]) {\n" \
    "  grid b in ceildiv(n, 16), c in ceildiv(m, 32) {\n" \
    "    shared t: f32[16, 32]\n" \
    "    copy a[b * 16, c * 32] -> t\n" \
    "    map i in 16, j in 32 { t[i, j] = t[i, j] * 2.0 + f32(j) }\n" \
    "    copy t -> y[b * 16, c * 32]\n" \
    "  }\n" \
    "}"

#define SAMPLE_GEMM_RELU \
    "kernel gemm_relu(A: f32[M, K], B: f32[N, K]) -> (C: f32[M, N]) {\n" \
    "  grid bx in ceildiv(N, 32), by in ceildiv(M, 16) {\n" \
    "    shared a: f32[16, 8]\n" \
    "    shared b: f32[32, 8]\n" \
    "    fragment acc: f32[16, 32] = 0\n" \
    "    pipeline k in ceildiv(K, 8) stages 2 {\n" \
    "      copy A[by * 16, k * 8] -> a\n" \
    "      copy B[bx * 32, k * 8] -> b\n" \
    "      gemm a, transpose b -> acc\n" \
    "    }\n" \
    "    map i in 16, j in 32 { acc[i, j] = max(acc[i, j], 0) }\n" \
    "    copy acc -> C[by * 16, bx * 32]\n" \
    "  }\n" \
    "}"

#define SAMPLE_HALF_GEMM \
    "kernel half_gemm(A: bf16[64, 32], B: bf16[32, 48]) -> (C: bf16[64, 48]) {\n" \
    "  shared a: bf16[64, 32]\n" \
    "  shared b: bf16[32, 48]\n" \
    "  fragment acc: bf16[64, 48] = 1\n" \
    "  copy A -> a\n" \
    "  copy B -> b\n" \
    "  gemm a, b -> acc\n" \
    "  copy acc -> C\n" \
    "}"

#define SAMPLE_WAVES \
    "kernel waves(z: c64[n]) -> (y: c64[n]) { map i in n { y[i] = z[i] * c64(0, 1) + exp(z[i]) } }"

#define SAMPLE_ROOM \
    "kernel room(a: f32[n]) -> (y: f32[n]) {\n" \
    "  global twice: f32[n]\n" \
    "  map i in n { twice[i] = a[i] * 2.0 }\n" \
    "  grid b in ceildiv(n, 64) {\n" \
    "    for j in b * 64 .. min(n, b * 64 + 64) step 2 { y[j] = twice[n - 1 - j] ; if j + 1 < n { y[j + 1] " \
    "= 0 } }\n" \
    "  }\n" \
    "}"

#endif
