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
#define RAW16 9

FN f32 f32_from_bf16(u16 b) { return f32_of((u32)b << 16); }
FN u16 bf16_from_f32(f32 x) {
    const u32 bits = bits_of(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (u16)(bits >> 16 | 0x40u);
    return (u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// A number on the way to one of 16 bits: f32 with the last bit set where anything was cut off, so that
// the second rounding is as good as one from the number itself.
FN f32 f32_odd(i64 x) {
    const u64 magnitude = x < 0 ? 0 - (u64)x : (u64)x;
    const u32 length = 64u - count_leading_zeros(magnitude);
    if (length <= 24) return (f32)x;
    const u32 cut = length - 24;
    const u64 lost = magnitude & (((u64)1 << cut) - 1);
    const f32 scale = f32_of((127u + cut) << 23);
    const f32 result = (f32)((u32)(magnitude >> cut) | (lost != 0 ? 1u : 0u)) * scale;
    return x < 0 ? -result : result;
}
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
SATURATE(saturate_i32, i32, (-2147483647 - 1), 2147483647, 2147483648.0f)
SATURATE(saturate_i64, i64, (-(i64)0x7fffffffffffffff - 1), (i64)0x7fffffffffffffff, 9223372036854775808.0f)

// Element<D>: Stored is what lies in memory, Value what is computed with; put takes any Value.
template <int D> struct Element;
#if HAS_F64
#define FOR_F64(code) code
#else
#define FOR_F64(code)
#endif
#define ELEMENT(D, stored, value, of_stored, of_f32, of_i32, of_i64, of_f64) \
    template <> struct Element<D> { \
        typedef stored Stored; \
        typedef value Value; \
        FN Value get(Stored x) { return of_stored; } \
        FN Stored put(f32 x) { return of_f32; } \
        FN Stored put(i32 x) { return of_i32; } \
        FN Stored put(i64 x) { return of_i64; } \
        FOR_F64(FN Stored put(f64 x) { return of_f64; }) \
    };
ELEMENT(F32, f32, f32, x, x, (f32)x, (f32)x, (f32)x)
ELEMENT(F16, u16, f32, f32_from_f16(x), f16_from_f32(x), f16_from_f32(f32_odd((i64)x)), f16_from_f32(f32_odd(x)), f16_from_f32(f32_odd(x)))
ELEMENT(BF16, u16, f32, f32_from_bf16(x), bf16_from_f32(x), bf16_from_f32(f32_odd((i64)x)), bf16_from_f32(f32_odd(x)), bf16_from_f32(f32_odd(x)))
ELEMENT(I8, i8, i32, (i32)x, (i8)saturate_i8(x), (i8)x, (i8)x, (i8)saturate_i8(x))
ELEMENT(U8, u8, i32, (i32)x, (u8)saturate_u8(x), (u8)x, (u8)x, (u8)saturate_u8(x))
ELEMENT(I32, i32, i32, x, saturate_i32(x), x, (i32)x, saturate_i32(x))
ELEMENT(I64, i64, i64, x, saturate_i64(x), (i64)x, x, saturate_i64(x))
ELEMENT(BOOL, u8, i32, (i32)x, x != 0.0f ? 1 : 0, x != 0 ? 1 : 0, x != 0 ? 1 : 0, x != 0.0 ? 1 : 0)
// Bits that nobody computes with.
template <> struct Element<RAW16> { typedef u16 Stored; typedef u16 Value; };
#if HAS_F64
ELEMENT(F64, f64, f64, x, (f64)x, (f64)x, (f64)x, x)
#else
template <> struct Element<F64> { typedef u64 Stored; typedef u64 Value; };
#endif

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
