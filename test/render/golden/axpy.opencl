__kernel void axpy(__global f32 *y3, __global const bf16 *x0, __global const bf16 *x1, __global const f32 *x2, i64 n) {
    i64 i = (i64)get_global_id(0);
    if (i >= n)
        return;
    bf16 s0 = x0[0];
    f32 s3 = zl_f32_of_bf16(s0);
    bf16 v1 = x1[i];
    f32 v2 = x2[i];
    f32 v4 = zl_f32_of_bf16(v1);
    f32 v5 = s3 * v4;
    bf16 v6 = zl_bf16_of_f32(v5);
    f32 v7 = zl_f32_of_bf16(v6);
    f32 v8 = v7 + v2;
    y3[i] = v8;
}
