// vulkan_add.c - a kernel for tests of the Vulkan device that need no renderer.

#include "vulkan_add.h"

const uint32_t vulkan_add_words[VULKAN_ADD_WORDS] = {
    0x7230203, 0x10500, 0x70000,    0x2e,    0,       0x20011, 1,       0x3000e, 0,       1,       0xa000f,
    5,         1,       0x5f646461, 0x30,    2,       3,       4,       5,       6,       0x60010, 1,
    0x11,      0x40,    1,          1,       0x40047, 2,       0xb,     0x1a,    0x40047, 3,       0xb,
    0x1b,      0x40047, 7,          6,       4,       0x30047, 8,       2,       0x50048, 8,       0,
    0x23,      0,       0x40047,    4,       0x22,    0,       0x40047, 4,       0x21,    0,       0x40047,
    5,         0x22,    0,          0x40047, 5,       0x21,    1,       0x30047, 9,       2,       0x50048,
    9,         0,       0x23,       0,       0x50048, 9,       1,       0x23,    4,       0x50048, 9,
    2,         0x23,    8,          0x50048, 9,       3,       0x23,    0xc,     0x50048, 9,       4,
    0x23,      0x10,    0x20013,    0xa,     0x30021, 0xb,     0xa,     0x20014, 0xc,     0x40015, 0xd,
    0x20,      0,       0x40017,    0xe,     0xd,     3,       0x40020, 0xf,     1,       0xe,     0x3001d,
    7,         0xd,     0x3001e,    8,       7,       0x40020, 0x10,    0xc,     8,       0x40020, 0x11,
    0xc,       0xd,     0x7001e,    9,       0xd,     0xd,     0xd,     0xd,     0xd,     0x40020, 0x12,
    9,         9,       0x40020,    0x13,    9,       0xd,     0x4002b, 0xd,     0x14,    0,       0x4002b,
    0xd,       0x15,    3,          0x4002b, 0xd,     0x16,    4,       0x4002b, 0xd,     0x17,    0x40,
    0x4002b,   0xd,     0x18,       0xffff,  0x4003b, 0xf,     2,       1,       0x4003b, 0xf,     3,
    1,         0x4003b, 0x10,       4,       0xc,     0x4003b, 0x10,    5,       0xc,     0x4003b, 0x12,
    6,         9,       0x50036,    0xa,     1,       0,       0xb,     0x200f8, 0x19,    0x4003d, 0xe,
    0x1a,      2,       0x4003d,    0xe,     0x1b,    3,       0x50051, 0xd,     0x1c,    0x1a,    0,
    0x50051,   0xd,     0x1d,       0x1a,    1,       0x50051, 0xd,     0x1e,    0x1b,    0,       0x50084,
    0xd,       0x1f,    0x1d,       0x18,    0x50080, 0xd,     0x20,    0x1f,    0x1c,    0x50084, 0xd,
    0x21,      0x20,    0x17,       0x50080, 0xd,     0x22,    0x21,    0x1e,    0x50041, 0x13,    0x23,
    6,         0x15,    0x4003d,    0xd,     0x24,    0x23,    0x50041, 0x13,    0x25,    6,       0x16,
    0x4003d,   0xd,     0x26,       0x25,    0x500b0, 0xc,     0x27,    0x22,    0x24,    0x300f7, 0x28,
    0,         0x400fa, 0x27,       0x29,    0x28,    0x200f8, 0x29,    0x60041, 0x11,    0x2a,    4,
    0x14,      0x22,    0x4003d,    0xd,     0x2b,    0x2a,    0x50080, 0xd,     0x2c,    0x2b,    0x26,
    0x60041,   0x11,    0x2d,       5,       0x14,    0x22,    0x3003e, 0x2d,    0x2c,    0x200f9, 0x28,
    0x200f8,   0x28,    0x100fd,    0x10038,
};

struct vulkan_function *vulkan_add_function(struct vulkan_device *d) {
    static struct vulkan_function *function;
    struct text source = {0}, code = {0};
    if (function)
        return function;
    text_bytes(&source, (const char *)vulkan_add_words, sizeof vulkan_add_words);
    if (!vulkan_compile(d, &source, &code) || !vulkan_load(d, code.data, (size_t)code.len, 1, &function))
        function = NULL;
    text_free(&source);
    text_free(&code);
    return function;
}

bool vulkan_add(struct vulkan_device *d, const void *from, const void *to, uint32_t n, uint32_t k) {
    struct vulkan_launch l;
    struct vulkan_function *f = vulkan_add_function(d);
    if (!f)
        return false;
    vulkan_launch_begin(&l, f, (n + 63) / 64);
    vulkan_launch_buffer(&l, from, 4 * (uint64_t)n, false);
    vulkan_launch_buffer(&l, to, 4 * (uint64_t)n, true);
    vulkan_launch_block(&l, d);
    vulkan_launch_value(&l, &n, sizeof n);
    vulkan_launch_value(&l, &k, sizeof k);
    return vulkan_launch(d, &l);
}

void *vulkan_zeros(struct vulkan_device *d, uint32_t n) {
    void *memory = vulkan_alloc(d, 4 * (size_t)n), *zero = memory_zero(4 * (size_t)n);
    bool good = memory && zero && vulkan_write(d, memory, zero, 4 * (size_t)n);
    memory_free(zero);
    if (good)
        return memory;
    vulkan_free(d, memory);
    return NULL;
}

uint32_t vulkan_last(struct vulkan_device *d, const void *memory, uint32_t n) {
    uint32_t *read = memory_zero(4 * (size_t)n), last = UINT32_MAX;
    if (read && vulkan_read(d, read, memory, 4 * (size_t)n, UINT64_MAX))
        last = read[n - 1];
    memory_free(read);
    return last;
}
