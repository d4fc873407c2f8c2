__kernel void rotate(__global f32 *y2, __global f32 *y3, __global const f32 *x0, __global const f32 *x1, i64 n) {
    i64 i = (i64)get_global_id(0);
    if (i >= n)
        return;
    f32 s7 = x1[2 * 0 + 0];
    f32 s8 = x1[2 * 0 + 1];
    f32 v2 = x0[2 * i + 0];
    f32 v3 = v2 * v2;
    f32 v4 = x0[2 * i + 1];
    f32 v5 = v4 * v4;
    f32 v6 = v3 + v5;
    f32 v9 = v2 * s7;
    f32 v10 = v4 * s8;
    f32 v11 = v9 - v10;
    f32 v12 = v2 * s8;
    f32 v13 = v4 * s7;
    f32 v14 = v12 + v13;
    y2[2 * i + 0] = v11;
    y2[2 * i + 1] = v14;
    y3[i] = v6;
}
