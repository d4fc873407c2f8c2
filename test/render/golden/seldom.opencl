__kernel void seldom(__global f32 *y2, __global const f32 *x0, __global const i32 *x1, i64 n) {
    i64 i = (i64)get_global_id(0);
    if (i >= n)
        return;
    f32 v0 = x0[i];
    bool v1 = v0 < 0x0p+0f;
    f32 v8 = v0 + 0x1p+0f;
    f32 v9 = v8;
    if (v1) {
        f32 v2 = zl_neg_f32(v0);
        f32 v3 = zl_sqrt_f32(v2);
        i32 v4 = x1[i];
        i32 v5 = (i32)((u32)v4 << 3);
        f32 v6 = (f32)(v5);
        f32 v7 = v3 * v6;
        v9 = v1 ? v7 : v8;
    }
    y2[i] = v9;
}
