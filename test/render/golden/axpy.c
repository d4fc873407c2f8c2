void axpy(char *const *p, int64_t n, int64_t run) {
    enum { BLOCK = 2 * VEC_BYTES / 2 };
    const char *x0 = p[1];
    const char *x1 = p[2];
    _Alignas(64) char rest1[BLOCK * 2];
    const char *end1 = x1;
    const char *x2 = p[3];
    _Alignas(64) char rest2[BLOCK * 4];
    const char *end2 = x2;
    char *y3 = p[0];
    _Alignas(64) char rest3[BLOCK * 4];
    char *end3 = y3;
    for (int64_t left = n; left > 0; left -= run) {
        n = left < run ? left : run;
        vec_bf16 s0 = vec_one_bf16(x0);
        vec_f32 s1 = vec_f32_of_bf16(s0, 0);
        int64_t rest = 0;
        for (;;) {
            for (; n >= BLOCK; n -= BLOCK) {
                vec_bf16 v2_0 = vec_load_bf16(x1);
                vec_bf16 v2_1 = vec_load_bf16(x1 + 1 * VEC_BYTES);
                vec_f32 v3_0 = vec_f32_of_bf16(v2_0, 0);
                vec_f32 v3_1 = vec_f32_of_bf16(v2_0, 1);
                vec_f32 v3_2 = vec_f32_of_bf16(v2_1, 0);
                vec_f32 v3_3 = vec_f32_of_bf16(v2_1, 1);
                vec_f32 v4_0 = vec_mul_f32(s1, v3_0);
                vec_f32 v4_1 = vec_mul_f32(s1, v3_1);
                vec_f32 v4_2 = vec_mul_f32(s1, v3_2);
                vec_f32 v4_3 = vec_mul_f32(s1, v3_3);
                vec_bf16 v5_0 = vec_bf16_of_f32(v4_0, v4_1);
                vec_bf16 v5_1 = vec_bf16_of_f32(v4_2, v4_3);
                vec_f32 v6_0 = vec_rounded_bf16(v4_0);
                vec_f32 v6_1 = vec_rounded_bf16(v4_1);
                vec_f32 v6_2 = vec_rounded_bf16(v4_2);
                vec_f32 v6_3 = vec_rounded_bf16(v4_3);
                vec_f32 v7_0 = vec_load_f32(x2);
                vec_f32 v7_1 = vec_load_f32(x2 + 1 * VEC_BYTES);
                vec_f32 v7_2 = vec_load_f32(x2 + 2 * VEC_BYTES);
                vec_f32 v7_3 = vec_load_f32(x2 + 3 * VEC_BYTES);
                vec_f32 v8_0 = vec_add_f32(v6_0, v7_0);
                vec_f32 v8_1 = vec_add_f32(v6_1, v7_1);
                vec_f32 v8_2 = vec_add_f32(v6_2, v7_2);
                vec_f32 v8_3 = vec_add_f32(v6_3, v7_3);
                vec_store_f32(y3 + 0 * VEC_BYTES, v8_0);
                vec_store_f32(y3 + 1 * VEC_BYTES, v8_1);
                vec_store_f32(y3 + 2 * VEC_BYTES, v8_2);
                vec_store_f32(y3 + 3 * VEC_BYTES, v8_3);
                x1 += BLOCK * 2;
                x2 += BLOCK * 4;
                y3 += BLOCK * 4;
            }
            if (n <= 0)
                break;
            rest = n;
            n = BLOCK;
            end1 = x1;
            vec_rest(rest1, x1, rest * 2, BLOCK * 2);
            x1 = rest1;
            end2 = x2;
            vec_rest(rest2, x2, rest * 4, BLOCK * 4);
            x2 = rest2;
            end3 = y3;
            y3 = rest3;
        }
        if (rest) {
            x1 = end1 + rest * 2;
            x2 = end2 + rest * 4;
            vec_copy(end3, rest3, rest * 4);
            y3 = end3 + rest * 4;
        }
        x0 += 2;
    }
}
