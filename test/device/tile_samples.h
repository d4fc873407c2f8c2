// tile_samples.h - tile kernels that several tests use, on different targets.

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

// The tile that is copied ahead is declared inside the loop.
#define SAMPLE_INNER_TILES \
    "kernel inner(a: f32[n, 256]) -> (y: f32[n, 64]) {\n" \
    "  grid b in n, threads 64 {\n" \
    "    fragment sum: f32[64] = 0\n" \
    "    pipeline k in 4 stages 3 {\n" \
    "      shared t: f32[64]\n" \
    "      copy a[b, k * 64] of [1, 64] -> t\n" \
    "      map i in 64 { sum[i] = sum[i] * 2 + t[63 - i] }\n" \
    "    }\n" \
    "    copy sum -> y[b, 0] of [1, 64]\n" \
    "  }\n" \
    "}"

// The condition of the loop reads what one thread wrote in the turn before.
#define SAMPLE_WHILE \
    "kernel rounds(a: i32[n]) -> (y: i32[n, 64]) {\n" \
    "  grid b in n, threads 64 {\n" \
    "    fragment from: i32[1]\n" \
    "    shared t: i32[64]\n" \
    "    fill t = 0\n" \
    "    from[0] = a[b] % 7\n" \
    "    while from[0] < 9 {\n" \
    "      map i in 64 { t[i] = t[i] + from[0] * (i32(i) + 1) }\n" \
    "      from[0] = from[0] + 2\n" \
    "    }\n" \
    "    copy t -> y[b, 0] of [1, 64]\n" \
    "  }\n" \
    "}"

// The factors become tiles of another type, and the result is read with another shape.
#define SAMPLE_SMALL_PRODUCT \
    "kernel small_product(A: e4m3[64, 32], B: e4m3[32, 32]) -> (C: f32[64, 2]) {\n" \
    "  grid g in 1, threads 64 {\n" \
    "    shared a: e4m3[64, 32]\n" \
    "    shared b: e4m3[32, 32]\n" \
    "    fragment s: f32[64, 32]\n" \
    "    view parts: f32[64, 2, 16] of s\n" \
    "    fragment sums: f32[64, 2]\n" \
    "    copy A -> a\n" \
    "    copy B -> b\n" \
    "    fill s = 0\n" \
    "    gemm a, transpose b -> s\n" \
    "    map i in 64, j in 2, k in 16 { parts[i, j, k] = max(parts[i, j, k], 0) }\n" \
    "    reduce add parts -> sums axis 2\n" \
    "    copy sums -> C\n" \
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
    "kernel waves(z: c64[n]) -> (y: c64[n]) {\n" \
    "  map i in n {\n" \
    "    local turn: c64[1]\n" \
    "    turn[0] = c64(0, 1)\n" \
    "    y[i] = load(z[i], i % 3 > 0, c64(2, -1)) * turn[0] + exp(z[i])\n" \
    "  }\n" \
    "}"

#define SAMPLE_ROOM \
    "kernel room(a: f32[n]) -> (y: f32[n]) {\n" \
    "  global twice: f32[n]\n" \
    "  map i in n { twice[i] = a[i] * 2.0 }\n" \
    "  grid b in ceildiv(n, 64) {\n" \
    "    for j in b * 64 .. min(n, b * 64 + 64) step 2 { y[j] = twice[n - 1 - j] ; if j + 1 < n { y[j + 1] " \
    "= 0 } }\n" \
    "  }\n" \
    "}"

// All codes of small types as numbers, and numbers of all magnitudes as codes.
#define SAMPLE_SMALL \
    "kernel small(x: f32[n]) -> (y: f32[8, 256], z: u8[8, n]) {\n" \
    "  map i in 256 {\n" \
    "    y[0, i] = f32(bits<e4m3>(u8(i)))\n" \
    "    y[1, i] = f32(bits<e5m2>(u8(i)))\n" \
    "    y[2, i] = f32(bits<e4m3fnuz>(u8(i)))\n" \
    "    y[3, i] = f32(bits<e5m2fnuz>(u8(i)))\n" \
    "    y[4, i] = f32(bits<e8m0>(u8(i)))\n" \
    "    y[5, i] = f32(bits<e2m1>(u4(u8(i) >> 4)))\n" \
    "    y[6, i] = f32(bits<i4>(u4(i)))\n" \
    "    y[7, i] = f32(u4(i * 3))\n" \
    "  }\n" \
    "  map i in n {\n" \
    "    let v = x[i] * bits<f32>((u32(i) % 60 + 100) << 23)\n" \
    "    z[0, i] = bits<u8>(e4m3(v))\n" \
    "    z[1, i] = bits<u8>(e5m2(v))\n" \
    "    z[2, i] = bits<u8>(e4m3fnuz(v))\n" \
    "    z[3, i] = bits<u8>(e5m2fnuz(v))\n" \
    "    z[4, i] = bits<u8>(e8m0(v))\n" \
    "    z[5, i] = u8(bits<u4>(e2m1(v))) | u8(bits<u4>(i4(v))) << 4\n" \
    "    z[6, i] = u8(bits<u4>(i4(i32(v)))) | u8(u4(v)) << 4\n" \
    "    z[7, i] = bits<u8>(e4m3(e5m2(v)))\n" \
    "  }\n" \
    "}"

#define SAMPLE_SMALL_TILES \
    "kernel small_tiles(x: f32[64, 40], w: f32[32, 48]) -> (c: f32[64, 48], d: e5m2[64, 40], " \
    "s: f32[64], m: f32[48]) {\n" \
    "  grid b in 1, threads 64 {\n" \
    "    shared a: e4m3[64, 32]\n" \
    "    shared e: e5m2[32, 48]\n" \
    "    fragment most: f32[64]\n" \
    "    fragment sums: f32[48] = 2\n" \
    "    fragment acc: f32[64, 48] = 0\n" \
    "    copy x[0, 4] -> a else 0.75\n" \
    "    copy w -> e\n" \
    "    gemm a, e -> acc\n" \
    "    copy acc -> c\n" \
    "    reduce absmax a -> most axis 1\n" \
    "    reduce abssum e -> sums axis 0 accumulate\n" \
    "    copy most -> s\n" \
    "    copy sums -> m\n" \
    "  }\n" \
    "  copy x -> d\n" \
    "}"

#define SAMPLE_IM2COL \
    "kernel patches(x: f32[2, n, 9, 3]) -> (y: f16[72, 32], z: f32[10, 30]) {\n" \
    "  grid i in 5, j in 2 {\n" \
    "    shared t: f16[16, 16]\n" \
    "    im2col x -> t at [i * 16, j * 16] window 3 stride 2 pad 1\n" \
    "    copy t -> y[i * 16, j * 16]\n" \
    "  }\n" \
    "  im2col x -> z at [7, 2] window 2 dilation 3\n" \
    "}"

// Reductions by groups of one subgroup, of several, of parts of one, and of lengths that are not powers of
// two, repeatedly in a loop, into registers and into memory.
#define SAMPLE_REDUCTIONS \
    "kernel reductions(x: f32[n, 384]) -> (most: f32[n], sums: f32[n], column: f32[384], " \
    "product: f32[n, 3], every: i32[3]) where n % 16 == 0 {\n" \
    "  grid b in n, threads 256 {\n" \
    "    fragment row: f32[1024]\n" \
    "    fragment high: f32[1]\n" \
    "    copy x[b, 0] of [1, 1024] -> row else -inf\n" \
    "    reduce maximum row -> high axis 0\n" \
    "    copy high -> most[b]\n" \
    "  }\n" \
    "  grid b in n // 16, threads 96 {\n" \
    "    fragment tile: f32[16, 384]\n" \
    "    fragment sum: f32[16] = 0.5\n" \
    "    copy x[b * 16, 0] -> tile\n" \
    "    for k in 3 {\n" \
    "      reduce add tile -> sum axis 1 accumulate\n" \
    "      map i in 16, j in 384 { tile[i, j] = tile[i, j] - sum[i] * 0.001 }\n" \
    "    }\n" \
    "    copy sum -> sums[b * 16]\n" \
    "  }\n" \
    "  grid b in 3, threads 128 {\n" \
    "    shared tile: f32[16, 128]\n" \
    "    fragment held: f32[16, 128]\n" \
    "    fragment low: f32[128]\n" \
    "    copy x[0, b * 128] -> tile\n" \
    "    copy tile -> held\n" \
    "    reduce minimum held -> low axis 0\n" \
    "    copy low -> column[b * 128]\n" \
    "    shared whole: i32[1000]\n" \
    "    shared total: i32[1]\n" \
    "    map i in 1000 { whole[i] = i32(i) * 3 - i32(b) }\n" \
    "    reduce add whole -> total axis 0\n" \
    "    every[b] = total[0]\n" \
    "    for k in n {\n" \
    "      shared one: f32[1]\n" \
    "      shared few: f32[48]\n" \
    "      map i in 48 { few[i] = 1 + x[k, i + b] / 64 }\n" \
    "      reduce multiply few -> one axis 0\n" \
    "      product[k, b] = one[0]\n" \
    "    }\n" \
    "  }\n" \
    "}"

// Scans of one row by all threads, in one turn or several, of several rows at once, and of short rows by one
// thread each; in place, in reverse, exclusive, of parts of tiles, and repeatedly in a loop.
#define SAMPLE_SCANS \
    "kernel scans(x: i32[n, 300], f: f32[m]) -> (a: i32[n, 300], b: i32[n, 300], c: i32[300, 7], " \
    "d: i64[n, 300], e: f32[m], p: i32[n, 8], o: f16[4, 90], r: i32[n, 300]) where n >= 8 {\n" \
    "  scan add x -> a axis 1\n" \
    "  scan maximum x -> b axis 0 reverse exclusive\n" \
    "  scan add f -> e axis 0 reverse\n" \
    "  scan add x of [n, 8] -> p axis 1 exclusive\n" \
    "  grid g in n, threads 96 {\n" \
    "    shared row: i64[300]\n" \
    "    map j in 300 { row[j] = i64(x[g, j]) << 33 }\n" \
    "    scan add row -> row axis 0 exclusive\n" \
    "    copy row -> d[g, 0] of [1, 300]\n" \
    "    for k in 3 {\n" \
    "      scan add x[g, k * 100] of [1, 100] -> r[g, k * 100] axis 1 reverse\n" \
    "    }\n" \
    "  }\n" \
    "  grid g in 1, threads 128 {\n" \
    "    fragment t: i32[300, 7]\n" \
    "    map i in 300, j in 7 { t[i, j] = i32(i) * 5 - x[j, i] }\n" \
    "    scan minimum t -> t axis 0\n" \
    "    copy t -> c\n" \
    "    shared h: f16[4, 90]\n" \
    "    map i in 4, j in 90 { h[i, j] = f16(j - 7 * i) / 64 }\n" \
    "    scan maximum h[1, 3] of [3, 80] -> h[1, 3] axis 1\n" \
    "    copy h -> o\n" \
    "  }\n" \
    "}"

// Tiles in registers that maps store: adjacent elements that begin at a multiple of a vector, whether or not
// that is known at compile time. Short rows belong to subgroups or threads, long ones to groups; which of
// them a row is, is known at run time.
#define SAMPLE_LINES \
    "kernel lines(x: f32[n, m], w: i8[3, n, m]) -> (y: f32[n, m], z: i8[3, n, m]) {\n" \
    "  scan add x -> y axis 1 exclusive\n" \
    "  scan maximum w -> z axis 2 reverse\n" \
    "}\n"

#define SAMPLE_STORES \
    "kernel stores(x: f32[n, 1024]) -> (y: f32[n, m], z: f16[2, n, 1024], w: f32[n, 3, 1024], " \
    "v: f32[n, 2048]) where m >= 1030 {\n" \
    "  fill y = 0\n" \
    "  fill v = 0\n" \
    "  grid b in n, threads 128 {\n" \
    "    fragment row: f32[1024]\n" \
    "    fragment two: f32[2, 512]\n" \
    "    copy x[b, 0] of [1, 1024] -> row\n" \
    "    map j in 1024 { y[b, j + 4] = row[j] * 2 }\n" \
    "    map j in 1024 { z[0, b, j] = f16(row[j]) }\n" \
    "    map j in 1024 { z[1, b, 1023 - j] = f16(row[j] + f32(j)) }\n" \
    "    for k in 3 { map j in 1024 { w[b, k, j] = row[j] + f32(k) * x[b, j] } }\n" \
    "    map i in 2, j in 512 { two[i, j] = x[b, i * 512 + j] * 3 }\n" \
    "    for k in 5 { map i in 2, j in 512 { v[b, i * 1024 + k * k + j] = two[i, j] + f32(k) } }\n" \
    "  }\n" \
    "}"

// Tables that are read at computed indices, copied as tiles, reduced and multiplied, of all types, in several
// launches. Parts of complex numbers go to other threads, words of a pack are used as elements; and
// logarithms of sums of exponentials.
#define SAMPLE_PIECES \
    "kernel pieces(z: c64[n, 64], w: u32[n, 16], a: f32[n, 64]) -> (y: c64[n, 64], v: f32[n, 64], " \
    "s: f32[n], r: f32[n, 64], d: f32[n, 64]) {\n" \
    "  grid b in n {\n" \
    "    thread t in 64 {\n" \
    "      local mine: c64[2]\n" \
    "      view parts: f32[2, 2] of mine\n" \
    "      local word: u32[1]\n" \
    "      view bytes: u8[4] of word\n" \
    "      local half: u16[2]\n" \
    "      view both: u32[1] of half\n" \
    "      both[0] = w[b, t % 16]\n" \
    "      mine[0] = z[b, t]\n" \
    "      for c in 2 { other = shuffle xor parts[0, c], 1 of 32; parts[1, c] = other }\n" \
    "      y[b, t] = mine[0] * mine[1]\n" \
    "      word[0] = w[b, t // 4]\n" \
    "      v[b, t] = f32(bytes[t % 4]) + f32(half[t % 2])\n" \
    "    }\n" \
    "  }\n" \
    "  reduce logaddexp a -> s axis 1\n" \
    "  grid b in n {\n" \
    "    fragment twice: f32[64]\n" \
    "    fragment sum: f32[1]\n" \
    "    map j in 64 { twice[j] = a[b, j] * 2 }\n" \
    "    reduce logaddexp twice -> sum axis 0\n" \
    "    map j in 64 { d[b, j] = twice[j] - sum[0] }\n" \
    "  }\n" \
    "  scan logaddexp a -> r axis 1\n" \
    "}"

#define SAMPLE_TABLES \
    "kernel tables(x: f32[n], s: table i32[3, 8], w: table f64[5], h: table f16[4, 4], " \
    "c: table bf16[16], b: table u8[9], q: table i64[3]) " \
    "-> (y: f32[n], z: i32[3], t: f32[4, 4], u: f32[16], d: f64[5], p: f32[4, 4]) {\n" \
    "  grid g in ceildiv(n, 64), threads 64 {\n" \
    "    shared sums: i32[3]\n" \
    "    shared own: bf16[16]\n" \
    "    reduce add s -> sums axis 1\n" \
    "    copy c -> own\n" \
    "    copy own -> u\n" \
    "    map i in 64 {\n" \
    "      let at = g * 64 + i\n" \
    "      let k = i64(s[at % 3, at % 8]) % 9\n" \
    "      y[at] = load(x[at], at < n) * f32(b[k]) + f32(sums[k % 3]) + f32(q[at % 3]) where at < n\n" \
    "    }\n" \
    "  }\n" \
    "  reduce add s -> z axis 1\n" \
    "  copy h -> t\n" \
    "  scan add w -> d axis 0\n" \
    "  grid g in 1, threads 32 {\n" \
    "    fragment acc: f32[4, 4] = 0\n" \
    "    gemm h, h -> acc\n" \
    "    copy acc -> p\n" \
    "  }\n" \
    "}"

// Maps and loops over adjacent elements: flat, in blocks, through tiles in shared memory whose maps are
// divided differently, in place, and packed words of which a loop reads four.
#define SAMPLE_RUNS \
    "kernel runs(x: f32[n, m], r: f16[n, m], w: bf16[m], k: u8[m], p: u32[n, 64], g: f16[512]) " \
    "-> (y: f32[n, m], z: f16[n, m], t: f32[n, 192], s: f32[n])\n" \
    "where m >= 192 {\n" \
    "  map i in n, j in m {\n" \
    "    v = x[i, j] * f32(w[j]) + f32(r[i, j])\n" \
    "    y[i, j] = v + f32(k[j])\n" \
    "    z[i, j] = f16(maximum(v, 0)) + r[i, j]\n" \
    "  }\n" \
    "  map j in m { y[n - 1, j] = y[n - 1, j] * 2 + f32(w[j]) }\n" \
    "  grid b in n, threads 32 {\n" \
    "    shared tile: f32[192]\n" \
    "    map j in 192 { tile[j] = f32(w[j]) }\n" \
    "    map j in 192 { tile[j] = tile[j] + x[b, j] }\n" \
    "    map j in 192 { tile[j] = tile[j] * x[b, 191 - j] }\n" \
    "    map j in 192 { t[b, j] = tile[191 - j] }\n" \
    "    fragment part: f32[32]\n" \
    "    fragment sum: f32[1]\n" \
    "    map l in 32 {\n" \
    "      total = 0f32\n" \
    "      for i in l .. 16 step 32 {\n" \
    "        unroll a in 4 {\n" \
    "          word = p[b, i * 4 + a]\n" \
    "          unroll c in 8 {\n" \
    "            total = total + f32((word >> u32(4 * c)) & 15) * f32(g[(i * 4 + a) * 8 + c])\n" \
    "          }\n" \
    "        }\n" \
    "      }\n" \
    "      part[l] = total\n" \
    "    }\n" \
    "    reduce add part -> sum axis 0\n" \
    "    map l in 1 { s[b] = sum[0] }\n" \
    "  }\n" \
    "}"

#endif
