// Element types: how they are stored, and how they are computed with.
#define F32 0
#define F16 1
#define BF16 2
#define F64 3
#define I8 4
#define U8 5
#define I32 6
#define I64 7
#define BOOL 8
#define U16 9
#define U32 10
#define U64 11
#define I16 12
// Types that are only stored; those from I4 on have two elements in a byte.
#define F8E4M3FN 13
#define F8E5M2 14
#define F8E4M3FNUZ 15
#define F8E5M2FNUZ 16
#define F8E8M0 17
#define I4 18
#define U4 19
#define F4E2M1 20

FN f32 f32_from_bf16(u16 b) { return f32_of((u32)b << 16); }
FN u16 bf16_from_f32(f32 x) {
    const u32 bits = bits_of(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (u16)(bits >> 16 | 0x40u);
    return (u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// A number on the way to one of 16 bits: f32 with the last bit set where anything was cut off, so that
// the second rounding is as good as one from the number itself.
FN f32 f32_odd(u64 x) {
    const u32 length = 64u - count_leading_zeros(x);
    if (length <= 24) return (f32)(u32)x;
    const u32 cut = length - 24;
    const u64 lost = x & (((u64)1 << cut) - 1);
    const f32 scale = f32_of((127u + cut) << 23);
    return (f32)((u32)(x >> cut) | (lost != 0 ? 1u : 0u)) * scale;
}
FN f32 f32_odd(i64 x) { return x < 0 ? -f32_odd(0 - (u64)x) : f32_odd((u64)x); }
#if HAS_F64
FN f32 f32_odd(f64 x) {
    const f32 near = (f32)x;
    const u32 bits = bits_of(near);
    if (x != x || (f64)near == x || (bits & 1u) != 0) return near;
    const f64 size = x < 0 ? -x : x;
    const f64 near_size = near < 0 ? -(f64)near : (f64)near;
    // Of zero the sign of x counts, which the conversion has kept.
    return f32_of(near_size > size ? bits - 1 : bits + 1);
}
#endif

// From floating point to integers: the fraction is cut off, what is out of range saturates, NaN is 0.
#define SATURATE(name, type, low, high, past) \
    template <typename F> FN type name(F x) { \
        return x != x ? (type)0 : x <= (F)(low) ? (type)(low) : x >= (F)(past) ? (type)(high) : (type)x; \
    }
SATURATE(saturate_i8, i32, -128, 127, 127)
SATURATE(saturate_u8, i32, 0, 255, 255)
SATURATE(saturate_i16, i32, -32768, 32767, 32767)
SATURATE(saturate_u16, i32, 0, 65535, 65535)
SATURATE(saturate_i32, i32, (-2147483647 - 1), 2147483647, 2147483648.0f)
SATURATE(saturate_i64, i64, (-(i64)0x7fffffffffffffff - 1), (i64)0x7fffffffffffffff, 9223372036854775808.0f)
SATURATE(saturate_u32, u32, 0, 0xffffffffu, 4294967296.0f)
SATURATE(saturate_u64, u64, 0, ~(u64)0, 18446744073709551616.0f)

// Element<D>: Stored is what lies in memory, Value what is computed with; put takes any Value.
template <int D> struct Element;
#if HAS_F64
#define FOR_F64(code) code
#else
#define FOR_F64(code)
#endif
#define ELEMENT(D, stored, value, of_stored, of_f32, of_f64, of_int, of_long) \
    template <> struct Element<D> { \
        typedef stored Stored; \
        typedef value Value; \
        FN Value get(Stored x) { return of_stored; } \
        FN Stored put(f32 x) { return of_f32; } \
        FN Stored put(i32 x) { return of_int; } \
        FN Stored put(u32 x) { return of_int; } \
        FN Stored put(i64 x) { return of_long; } \
        FN Stored put(u64 x) { return of_long; } \
        FOR_F64(FN Stored put(f64 x) { return of_f64; }) \
    };
#define FLOAT_16(D, of_f32, to_f32) \
    ELEMENT(D, u16, f32, to_f32(x), of_f32(x), of_f32(f32_odd(x)), of_f32(f32_odd((i64)x)), of_f32(f32_odd(x)))
#define INTEGER(D, stored, value, saturate) \
    ELEMENT(D, stored, value, (value)x, (stored)saturate(x), (stored)saturate(x), (stored)x, (stored)x)
ELEMENT(F32, f32, f32, x, x, (f32)x, (f32)x, (f32)x)
FLOAT_16(F16, f16_from_f32, f32_from_f16)
FLOAT_16(BF16, bf16_from_f32, f32_from_bf16)
INTEGER(I8, i8, i32, saturate_i8)
INTEGER(U8, u8, i32, saturate_u8)
INTEGER(I16, i16, i32, saturate_i16)
INTEGER(U16, u16, i32, saturate_u16)
INTEGER(I32, i32, i32, saturate_i32)
INTEGER(U32, u32, u32, saturate_u32)
INTEGER(I64, i64, i64, saturate_i64)
INTEGER(U64, u64, u64, saturate_u64)
ELEMENT(BOOL, u8, i32, (i32)x, x != 0.0f ? 1 : 0, x != 0.0 ? 1 : 0, x != 0 ? 1 : 0, x != 0 ? 1 : 0)
#if HAS_F64
ELEMENT(F64, f64, f64, x, (f64)x, x, (f64)x, (f64)x)
#else
template <> struct Element<F64> { typedef u64 Stored; typedef u64 Value; };
#endif
#undef INTEGER

template <int TO, int FROM> struct Convert {
    FN typename Element<TO>::Stored apply(typename Element<FROM>::Stored x) {
        return Element<TO>::put(Element<FROM>::get(x));
    }
};
template <int SAME> struct Convert<SAME, SAME> {
    FN typename Element<SAME>::Stored apply(typename Element<SAME>::Stored x) { return x; }
};
// A stored element of one type as one of another, rounded once.
template <int TO, int FROM> FN typename Element<TO>::Stored convert(typename Element<FROM>::Stored x) {
    return Convert<TO, FROM>::apply(x);
}

// Element `at` of a buffer, and back.
template <int D, typename I> FN typename Element<D>::Value load(DEVICE const u8* buffer, I at) {
    return Element<D>::get(((DEVICE const typename Element<D>::Stored*)buffer)[at]);
}
template <int D, typename I> FN void store(DEVICE u8* buffer, I at, typename Element<D>::Value value) {
    ((DEVICE typename Element<D>::Stored*)buffer)[at] = Element<D>::put(value);
}

// Elements of a given size, whatever they mean.
template <int SIZE> struct Raw;
template <> struct Raw<1> { typedef u8 Stored; };
template <> struct Raw<2> { typedef u16 Stored; };
template <> struct Raw<4> { typedef u32 Stored; };
template <> struct Raw<8> { typedef u64 Stored; };

// Several elements that are moved at once; at most 16 bytes, and aligned to all of them.
template <typename S, int N> struct alignas(sizeof(S) * N) Pack {
    S e[N];
};
