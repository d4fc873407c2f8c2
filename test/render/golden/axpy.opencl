__kernel void axpy(__global f32 *y3, __global const bf16 *x0, __global const bf16 *x1, __global const f32 *x2, i64 n) {
    i64 i = (i64)get_global_id(0);
    if (i >= n)
        return;
    bf16 s0 = x0[0];
    f32 s1 = zl_f32_of_bf16(s0);
    bf16 v2 = x1[i];
    f32 v3 = zl_f32_of_bf16(v2);
    f32 v4 = s1 * v3;
    bf16 v5 = zl_bf16_of_f32(v4);
    f32 v6 = zl_f32_of_bf16(v5);
    f32 v7 = x2[i];
    f32 v8 = v6 + v7;
    y3[i] = v8;
}
