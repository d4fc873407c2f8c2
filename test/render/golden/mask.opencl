__kernel void mask(__global u8 *y3, __global f64 *y4, __global const f32 *x0, __global const f64 *x1, __global const u8 *x2, i64 n) {
    i64 i = (i64)get_global_id(0);
    if (i >= n)
        return;
    bool v0 = x2[i] != 0;
    f32 v1 = x0[i];
    bool v2 = v1 < 0x1p+0f;
    bool v3 = v0 & v2;
    f64 v4 = (f64)(v1);
    f64 v5 = x1[i];
    bool v6 = v4 == v5;
    bool v7 = !v6;
    bool v8 = v3 | v7;
    f64 v9 = v0 ? v5 : v4;
    y3[i] = v8;
    y4[i] = v9;
}
