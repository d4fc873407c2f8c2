VEC_FN vec_f32 total_step(vec_f32 v0_0, vec_f32 v1_0) {
    vec_f32 v2_0 = vec_add_f32(v0_0, v1_0);
    return v2_0;
}

#define START(R) vec_f32 a##R = (vec_f32)vec_splat_u32(0x0u);
#define STEP(R) a##R = vec_add_f32_f16(a##R, vec_load_f16(x + R / 2 * VEC_BYTES), R % 2);
#define LAST(R) a##R = vec_select_f32(vec_before_32(R * VEC_BYTES / 4, n), total_step(a##R, vec_f32_of_f16(vec_load_f16(rest + R / 2 * VEC_BYTES), R % 2)), a##R);
#define FOLD(R, S) a##R = total_step(a##R, a##S);
#define DOWN(BYTES) a0 = total_step(a0, (vec_f32)vec_down((vec_u64)a0, BYTES));
void total(char *const *p, int64_t n, int64_t run) {
    enum { BLOCK = 32 };
    const char *x = p[1];
    const int64_t ahead = run > n ? (run - n) * 2 : 0;
    VEC_EACH_128(START)
    for (; ahead && n >= BLOCK; n -= BLOCK, x += BLOCK * 2) {
        vec_fetch(x, ahead, BLOCK * 2);
        VEC_EACH_128(STEP)
    }
    for (; n >= BLOCK; n -= BLOCK, x += BLOCK * 2) {
        VEC_EACH_128(STEP)
    }
    if (n > 0) {
        _Alignas(64) char rest[BLOCK * 2];
        vec_rest(rest, x, n * 2, sizeof rest);
        VEC_EACH_128(LAST)
    }
    VEC_FOLD_128(FOLD)
    VEC_DOWN_4(DOWN)
    _Alignas(64) char result[VEC_BYTES];
    vec_store_f32(result, a0);
    __builtin_memcpy(p[0], result, 4);
}
#undef START
#undef STEP
#undef LAST
#undef FOLD
#undef DOWN
