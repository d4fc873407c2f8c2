void seldom(char *const *p, int64_t n, int64_t run) {
    enum { BLOCK = 4 * VEC_BYTES / 4 };
    const char *x0 = p[1];
    _Alignas(64) char rest0[BLOCK * 4];
    const char *x1 = p[2];
    _Alignas(64) char rest1[BLOCK * 4];
    char *y2 = p[0];
    _Alignas(64) char rest2[BLOCK * 4];
    char *end2 = y2;
    (void)run;
    int64_t rest = 0;
    for (;;) {
        for (; n >= BLOCK; n -= BLOCK) {
            vec_f32 v0_0 = vec_load_f32(x0);
            vec_f32 v0_1 = vec_load_f32(x0 + 1 * VEC_BYTES);
            vec_f32 v0_2 = vec_load_f32(x0 + 2 * VEC_BYTES);
            vec_f32 v0_3 = vec_load_f32(x0 + 3 * VEC_BYTES);
            vec_i32 v1_0 = vec_lt_f32(v0_0, vec_splat_f32(0x0p+0f));
            vec_i32 v1_1 = vec_lt_f32(v0_1, vec_splat_f32(0x0p+0f));
            vec_i32 v1_2 = vec_lt_f32(v0_2, vec_splat_f32(0x0p+0f));
            vec_i32 v1_3 = vec_lt_f32(v0_3, vec_splat_f32(0x0p+0f));
            vec_f32 v8_0 = vec_add_f32(v0_0, vec_splat_f32(0x1p+0f));
            vec_f32 v8_1 = vec_add_f32(v0_1, vec_splat_f32(0x1p+0f));
            vec_f32 v8_2 = vec_add_f32(v0_2, vec_splat_f32(0x1p+0f));
            vec_f32 v8_3 = vec_add_f32(v0_3, vec_splat_f32(0x1p+0f));
            vec_f32 v9_0 = v8_0;
            vec_f32 v9_1 = v8_1;
            vec_f32 v9_2 = v8_2;
            vec_f32 v9_3 = v8_3;
            if (vec_any((vec_u64)(v1_0 | v1_1 | v1_2 | v1_3))) {
                vec_f32 v2_0 = vec_neg_f32(v0_0);
                vec_f32 v2_1 = vec_neg_f32(v0_1);
                vec_f32 v2_2 = vec_neg_f32(v0_2);
                vec_f32 v2_3 = vec_neg_f32(v0_3);
                vec_f32 v3_0 = vec_sqrt_f32(v2_0);
                vec_f32 v3_1 = vec_sqrt_f32(v2_1);
                vec_f32 v3_2 = vec_sqrt_f32(v2_2);
                vec_f32 v3_3 = vec_sqrt_f32(v2_3);
                vec_i32 v4_0 = vec_load_i32(x1);
                vec_i32 v4_1 = vec_load_i32(x1 + 1 * VEC_BYTES);
                vec_i32 v4_2 = vec_load_i32(x1 + 2 * VEC_BYTES);
                vec_i32 v4_3 = vec_load_i32(x1 + 3 * VEC_BYTES);
                vec_i32 v5_0 = vec_shl_by_i32(v4_0, 3);
                vec_i32 v5_1 = vec_shl_by_i32(v4_1, 3);
                vec_i32 v5_2 = vec_shl_by_i32(v4_2, 3);
                vec_i32 v5_3 = vec_shl_by_i32(v4_3, 3);
                vec_f32 v6_0 = vec_f32_of_i32(v5_0);
                vec_f32 v6_1 = vec_f32_of_i32(v5_1);
                vec_f32 v6_2 = vec_f32_of_i32(v5_2);
                vec_f32 v6_3 = vec_f32_of_i32(v5_3);
                vec_f32 v7_0 = vec_mul_f32(v3_0, v6_0);
                vec_f32 v7_1 = vec_mul_f32(v3_1, v6_1);
                vec_f32 v7_2 = vec_mul_f32(v3_2, v6_2);
                vec_f32 v7_3 = vec_mul_f32(v3_3, v6_3);
                v9_0 = vec_select_f32(v1_0, v7_0, v8_0);
                v9_1 = vec_select_f32(v1_1, v7_1, v8_1);
                v9_2 = vec_select_f32(v1_2, v7_2, v8_2);
                v9_3 = vec_select_f32(v1_3, v7_3, v8_3);
            }
            vec_store_f32(y2 + 0 * VEC_BYTES, v9_0);
            vec_store_f32(y2 + 1 * VEC_BYTES, v9_1);
            vec_store_f32(y2 + 2 * VEC_BYTES, v9_2);
            vec_store_f32(y2 + 3 * VEC_BYTES, v9_3);
            x0 += BLOCK * 4;
            x1 += BLOCK * 4;
            y2 += BLOCK * 4;
        }
        if (n <= 0)
            break;
        rest = n;
        n = BLOCK;
        vec_rest(rest0, x0, rest * 4, BLOCK * 4);
        x0 = rest0;
        vec_rest(rest1, x1, rest * 4, BLOCK * 4);
        x1 = rest1;
        end2 = y2;
        y2 = rest2;
    }
    if (rest) {
        vec_copy(end2, rest2, rest * 4);
    }
}
