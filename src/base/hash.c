// hash.c - a fast hash for keys in memory, and SHA-256 for names of files.
//
// hash_bytes multiplies 8 bytes by 8 bytes to 16 and XORs the halves; long keys use two independent chains.
// Its values may differ between machines of different byte order and must not be stored. The seed is part of
// every factor, so that without it nobody can choose keys that make a product 0 and thereby have the same
// hash.

#include "base/base.h"

#include <string.h>
#include <sys/random.h>

__extension__ typedef unsigned __int128 wide;

// odd numbers with about half of their bits set: the fractions of sqrt 2, sqrt 3 and sqrt 5
static const uint64_t salt[] = {0x6a09e667f3bcc909, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b};

static uint64_t mix(uint64_t a, uint64_t b) {
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load8(const unsigned char *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t load4(const unsigned char *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t hash_short(const unsigned char *at, size_t bytes, uint64_t state, uint64_t seed) {
    uint64_t a = 0, b = 0;
    if (bytes >= 4) { // four loads that overlap cover any length from 4 to 16
        size_t step = bytes / 8 * 4;
        a = load4(at) << 32 | load4(at + step);
        b = load4(at + bytes - 4) << 32 | load4(at + bytes - 4 - step);
    } else if (bytes > 0) {
        a = (uint64_t)at[0] << 16 | (uint64_t)at[bytes / 2] << 8 | at[bytes - 1];
    }
    return mix(salt[1] ^ bytes, mix(a ^ salt[1] ^ seed, b ^ state));
}

uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed) {
    uint64_t a = seed ^ mix(seed ^ salt[0], salt[1]), b = a;
    if (bytes <= 16)
        return hash_short(data, bytes, a, seed);
    const unsigned char *at = data, *end = at + bytes;
    for (; end - at > 32; at += 32) {
        a = mix(load8(at) ^ salt[0] ^ seed, load8(at + 8) ^ a);
        b = mix(load8(at + 16) ^ salt[2] ^ seed, load8(at + 24) ^ b);
    }
    if (end - at > 16)
        a = mix(load8(at) ^ salt[0] ^ seed, load8(at + 8) ^ a);
    uint64_t last = mix(load8(end - 16) ^ salt[1] ^ seed, load8(end - 8) ^ a ^ b);
    return mix(salt[2] ^ bytes, last ^ (b << 32 | b >> 32));
}

uint64_t hash_secret(void) {
    static atomic_ullong secret; // 0: not made yet
    unsigned long long known = atomic_load_explicit(&secret, memory_order_relaxed), fresh;
    if (known)
        return known;
    if (getrandom(&fresh, sizeof fresh, GRND_NONBLOCK) != sizeof fresh) // getrandom fails early during boot
        fresh = mix((uint64_t)clock_ns() ^ salt[2], (uintptr_t)&known ^ salt[0]);
    fresh |= 1;
    return atomic_compare_exchange_strong(&secret, &known, fresh) ? fresh : known;
}

// SHA-256, FIPS 180-4 ---------------------------------------------------------------------------------------

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t value, int bits) {
    return value >> bits | value << (32 - bits);
}

static uint32_t load_big(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void expand(uint32_t *word, const unsigned char *block) {
    for (int i = 0; i < 16; i++)
        word[i] = load_big(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t early = word[i - 15], late = word[i - 2];
        word[i] = word[i - 16] + word[i - 7] + (turn(early, 7) ^ turn(early, 18) ^ early >> 3) +
                  (turn(late, 17) ^ turn(late, 19) ^ late >> 10);
    }
}

static void digest_block(uint32_t state[8], const unsigned char *block) {
    uint32_t word[64];
    expand(word, block);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
        uint32_t one = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + choice + round_constant[i] + word[i];
        uint32_t two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + majority;
        h = g, g = f, f = e, e = d + one;
        d = c, c = b, b = a, a = one + two;
    }
    const uint32_t end[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += end[i];
}

// Processes the last bytes, a 1 bit, zeros, and the length in bits: one block or two.
static void digest_end(uint32_t state[8], const unsigned char *rest, size_t count, uint64_t bytes) {
    unsigned char block[128] = {0};
    size_t used = count < 56 ? 64 : 128;
    if (count)
        memcpy(block, rest, count);
    block[count] = 0x80;
    for (int i = 0; i < 8; i++)
        block[used - 1 - (size_t)i] = (unsigned char)(bytes * 8 >> (8 * i));
    for (size_t at = 0; at < used; at += 64)
        digest_block(state, block + at);
}

void hash_sha256(const void *data, size_t bytes, char *out) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const unsigned char *at = data;
    size_t rest = bytes;
    for (; rest >= 64; rest -= 64, at += 64)
        digest_block(state, at);
    digest_end(state, at, rest, bytes);
    for (int i = 0; i < 64; i++)
        out[i] = "0123456789abcdef"[state[i / 8] >> (28 - i % 8 * 4) & 15];
    out[64] = 0;
}
