// Conversions to and from types that are only stored. STORED is such a type, TYPE the other one; BACK is 1 for
// from STORED to TYPE. A 4-bit type has two elements in a byte, the first in the low bits.

typedef Index<WIDE>::Type I;
typedef Element<TYPE> Other;

#if STORED == F8E4M3FN
enum { FRACTION = 3, LOWEST = -6, SIGN = 0x80, LARGEST = 0x7e, BEYOND = 0x7f, NOT_A_NUMBER = 0x7f, ONE_ZERO = 0 };
#elif STORED == F8E5M2
enum { FRACTION = 2, LOWEST = -14, SIGN = 0x80, LARGEST = 0x7b, BEYOND = 0x7c, NOT_A_NUMBER = 0x7e, ONE_ZERO = 0 };
#elif STORED == F8E4M3FNUZ
enum { FRACTION = 3, LOWEST = -7, SIGN = 0x80, LARGEST = 0x7f, BEYOND = 0x80, NOT_A_NUMBER = 0x80, ONE_ZERO = 1 };
#elif STORED == F8E5M2FNUZ
enum { FRACTION = 2, LOWEST = -15, SIGN = 0x80, LARGEST = 0x7f, BEYOND = 0x80, NOT_A_NUMBER = 0x80, ONE_ZERO = 1 };
#elif STORED == F4E2M1
enum { FRACTION = 1, LOWEST = 0, SIGN = 8, LARGEST = 7, BEYOND = 7, NOT_A_NUMBER = 8, ONE_ZERO = 0 };
#endif

#if STORED == I4 || STORED == U4
FN u32 bits_from(f32 x) { return (u32)saturate_i32(x); }
FN u32 bits_from(i32 x) { return (u32)x; }
FN u32 bits_from(u32 x) { return x; }
FN u32 bits_from(i64 x) { return (u32)x; }
FN u32 bits_from(u64 x) { return (u32)x; }
FN i32 value_of(u32 bits) { return STORED == I4 && bits >= 8 ? (i32)bits - 16 : (i32)bits; }
#elif STORED == F8E8M0
// The next power of two that is not smaller.
FN u32 bits_from(f32 x) {
    const u32 whole = bits_of(x) & 0x7fffffffu;
    if (whole >= 0x7f800000u || x < 0.0f) return 255;
    if (whole <= 0x400000u) return 0;
    const u32 exponent = (whole >> 23) + ((whole & 0x7fffffu) != 0 ? 1 : 0);
    return SATURATES != 0 && exponent == 255 ? 254 : exponent;
}
FN f32 value_of(u32 bits) {
    return bits == 255 ? f32_of(0x7fc00000u) : bits == 0 ? f32_of(0x400000u) : f32_of(bits << 23);
}
#else
FN f32 power(i32 exponent) { return f32_of((u32)(exponent + 127) << 23); }
FN u32 bits_from(f32 x) {
    const u32 all = bits_of(x), whole = all & 0x7fffffffu;
    const u32 sign = (all >> 31) != 0 ? (u32)SIGN : 0;
    if (whole > 0x7f800000u) return ONE_ZERO != 0 || SIGN == 8 ? (u32)NOT_A_NUMBER : (u32)NOT_A_NUMBER | sign;
    const u32 beyond = SATURATES != 0 ? (u32)LARGEST : (u32)BEYOND;
    u32 rounded = beyond;
    if (whole != 0x7f800000u) {
        i32 exponent = (i32)(whole >> 23) - 127;
        if (exponent < LOWEST) exponent = LOWEST;
        // Exact, since only the exponent changes: in steps of the last bit of the result.
        const u32 steps = (u32)(i32)m_round_even(f32_of(whole) * power((i32)FRACTION - exponent));
        const u32 bits = ((u32)(exponent - LOWEST) << FRACTION) + steps;
        rounded = bits > (u32)LARGEST ? beyond : bits;
    }
    if (ONE_ZERO != 0 && (rounded == 0 || rounded == (u32)NOT_A_NUMBER)) return rounded;
    return rounded | sign;
}
FN f32 value_of(u32 bits) {
    const u32 rest = bits & ((u32)SIGN - 1);
    const u32 sign = (bits & (u32)SIGN) != 0 ? 0x80000000u : 0;
    const bool special = ONE_ZERO != 0 ? bits == (u32)NOT_A_NUMBER : rest > (u32)LARGEST;
    if (special) {
        const bool infinite = (u32)BEYOND != (u32)NOT_A_NUMBER && rest == (u32)BEYOND;
        return f32_of(sign | (infinite ? 0x7f800000u : 0x7fc00000u));
    }
    const i32 exponent = (i32)(rest >> FRACTION);
    const i32 fraction = (i32)(rest & ((1u << FRACTION) - 1));
    const i32 whole = exponent == 0 ? fraction : fraction + (1 << FRACTION);
    const f32 size = (f32)whole * power((exponent > 1 ? exponent : 1) - 1 + LOWEST - FRACTION);
    return f32_of(bits_of(size) | sign);
}
#endif

// Elements that a thread makes at once: those of a byte.
enum { IN_BYTE = STORED >= I4 ? 2 : 1, TOGETHER = BACK ? 1 : IN_BYTE };

KERNEL_2(dst, src) {
    const Thread t = THREAD;
    const I count = (I)p.walk.count;
    for (I i = first_item<I>(t); i < (count + TOGETHER - 1) / TOGETHER; i += all_items<I>(t)) {
        I at[2];
#if BACK
        locate<RANK, 2, I>(p.walk, i, at);
        const u32 byte = src[at[1] / IN_BYTE];
        const u32 bits = IN_BYTE == 1 ? byte : byte >> (4 * (u32)(at[1] & 1)) & 15;
        ((DEVICE Other::Stored*)dst)[at[0]] = Other::put(value_of(bits));
#else
        // The walk goes over a 4-bit output in the order of memory.
        u32 bits = 0;
        I to = 0;
        for (u32 k = 0; k < TOGETHER; ++k) {
            const I element = i * TOGETHER + k;
            if (element >= count) continue;
            locate<RANK, 2, I>(p.walk, element, at);
            if (k == 0) to = at[0] / IN_BYTE;
            const u32 one = bits_from(Other::get(((DEVICE const Other::Stored*)src)[at[1]]));
            bits |= (IN_BYTE == 1 ? one : one & 15) << (4 * k);
        }
        dst[to] = (u8)bits;
#endif
    }
}
