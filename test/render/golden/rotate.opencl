__kernel void rotate(__global f32 *y2, __global f32 *y3, __global const f32 *x0, __global const f32 *x1, i64 n) {
    i64 i = (i64)get_global_id(0);
    if (i >= n)
        return;
    f32 s3 = x1[2 * 0 + 0];
    f32 s6 = x1[2 * 0 + 1];
    f32 v1 = x0[2 * i + 0];
    f32 v4 = v1 * s3;
    f32 v5 = x0[2 * i + 1];
    f32 v7 = v5 * s6;
    f32 v8 = v4 - v7;
    f32 v9 = v1 * s6;
    f32 v10 = v5 * s3;
    f32 v11 = v9 + v10;
    f32 v13 = v1 * v1;
    f32 v14 = v5 * v5;
    f32 v15 = v13 + v14;
    y2[2 * i + 0] = v8;
    y2[2 * i + 1] = v11;
    y3[i] = v15;
}
