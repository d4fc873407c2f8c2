void rotate(char *const *p, int64_t n, int64_t run) {
    enum { BLOCK = 2 * VEC_BYTES / 4 };
    const char *x0 = p[2];
    _Alignas(64) char rest0[BLOCK * 8];
    const char *end0 = x0;
    const char *x1 = p[3];
    char *y2 = p[0];
    _Alignas(64) char rest2[BLOCK * 8];
    char *end2 = y2;
    char *y3 = p[1];
    _Alignas(64) char rest3[BLOCK * 4];
    char *end3 = y3;
    const int64_t ahead = run > n ? run - n : 0;
    for (int64_t left = n; left > 0; left -= run) {
        n = left < run ? left : run;
        vec_f32 s3 = vec_one_f32(x1);
        vec_f32 s6 = vec_one_f32(x1 + 4);
        int64_t rest = 0;
        for (;;) {
            for (; n >= BLOCK; n -= BLOCK) {
                vec_fetch(x0, ahead * 8, BLOCK * 8);
                vec_f32 v0_0 = vec_load_f32(x0);
                vec_f32 v0_1 = vec_load_f32(x0 + 1 * VEC_BYTES);
                vec_f32 v0_2 = vec_load_f32(x0 + 2 * VEC_BYTES);
                vec_f32 v0_3 = vec_load_f32(x0 + 3 * VEC_BYTES);
                vec_f32 v1_0 = vec_re(v0_0, v0_1);
                vec_f32 v1_1 = vec_re(v0_2, v0_3);
                vec_f32 v4_0 = vec_mul_f32(v1_0, s3);
                vec_f32 v4_1 = vec_mul_f32(v1_1, s3);
                vec_f32 v5_0 = vec_im(v0_0, v0_1);
                vec_f32 v5_1 = vec_im(v0_2, v0_3);
                vec_f32 v7_0 = vec_mul_f32(v5_0, s6);
                vec_f32 v7_1 = vec_mul_f32(v5_1, s6);
                vec_f32 v8_0 = vec_sub_f32(v4_0, v7_0);
                vec_f32 v8_1 = vec_sub_f32(v4_1, v7_1);
                vec_f32 v9_0 = vec_mul_f32(v1_0, s6);
                vec_f32 v9_1 = vec_mul_f32(v1_1, s6);
                vec_f32 v10_0 = vec_mul_f32(v5_0, s3);
                vec_f32 v10_1 = vec_mul_f32(v5_1, s3);
                vec_f32 v11_0 = vec_add_f32(v9_0, v10_0);
                vec_f32 v11_1 = vec_add_f32(v9_1, v10_1);
                vec_f32 v13_0 = vec_mul_f32(v1_0, v1_0);
                vec_f32 v13_1 = vec_mul_f32(v1_1, v1_1);
                vec_f32 v14_0 = vec_mul_f32(v5_0, v5_0);
                vec_f32 v14_1 = vec_mul_f32(v5_1, v5_1);
                vec_f32 v15_0 = vec_add_f32(v13_0, v14_0);
                vec_f32 v15_1 = vec_add_f32(v13_1, v14_1);
                vec_store_f32(y2 + 0 * VEC_BYTES, vec_pair_low(v8_0, v11_0));
                vec_store_f32(y2 + 1 * VEC_BYTES, vec_pair_high(v8_0, v11_0));
                vec_store_f32(y2 + 2 * VEC_BYTES, vec_pair_low(v8_1, v11_1));
                vec_store_f32(y2 + 3 * VEC_BYTES, vec_pair_high(v8_1, v11_1));
                vec_store_f32(y3 + 0 * VEC_BYTES, v15_0);
                vec_store_f32(y3 + 1 * VEC_BYTES, v15_1);
                x0 += BLOCK * 8;
                y2 += BLOCK * 8;
                y3 += BLOCK * 4;
            }
            if (n <= 0)
                break;
            rest = n;
            n = BLOCK;
            end0 = x0;
            vec_rest(rest0, x0, rest * 8, BLOCK * 8);
            x0 = rest0;
            end2 = y2;
            y2 = rest2;
            end3 = y3;
            y3 = rest3;
        }
        if (rest) {
            x0 = end0 + rest * 8;
            vec_copy(end2, rest2, rest * 8);
            y2 = end2 + rest * 8;
            vec_copy(end3, rest3, rest * 4);
            y3 = end3 + rest * 4;
        }
        x1 += 8;
    }
}
