// To 8-bit integers with a scale, and from integers. FLOAT, INTEGER and SCALE are element types; BACK is 1 for
// from integers. Where there is no zero point, the scale stands in its place and is not read as one.

typedef Index<WIDE>::Type I;
typedef Element<FLOAT> Real;
typedef Element<INTEGER> Whole;

template <int DIRECTION> struct Scaled;
template <> struct Scaled<0> {
    typedef Real From;
    typedef Whole To;
    FN Whole::Stored apply(Real::Stored x, f32 scale, Whole::Stored zero) {
        typedef Real::Value Value;
        const Value quotient = m_round_even(Real::get(x) / (Value)scale);
        // The sum is exact where it is not out of range anyway.
        return Whole::put(is_nan(quotient) ? (Value)Whole::get(zero) : quotient + (Value)Whole::get(zero));
    }
};
template <> struct Scaled<1> {
    typedef Whole From;
    typedef Real To;
    FN Real::Stored apply(Whole::Stored x, f32 scale, Whole::Stored zero) {
        typedef Real::Value Value;
        const i64 difference = (i64)x - (i64)zero;
        return Real::put((Value)difference * (Value)scale);
    }
};
typedef Scaled<BACK> Step;
typedef Step::From::Stored From;
typedef Step::To::Stored To;

template <int N> FN void several(DEVICE u8* dst, DEVICE const u8* src, DEVICE const u8* scales,
                                 DEVICE const u8* zeros, IN_THREAD const I* at, u32 zero) {
    const Pack<From, N> in = *(DEVICE const Pack<From, N>*)((DEVICE const From*)src + at[1]);
    Pack<To, N> out;
    for (u32 k = 0; k < N; ++k) {
        const f32 scale = load<SCALE>(scales, at[2] + (N > 1 && (STEPS & 4) != 0 ? k : 0));
        const Whole::Stored offset = zero == 0 ? (Whole::Stored)0
            : ((DEVICE const Whole::Stored*)zeros)[at[3] + (N > 1 && (STEPS & 8) != 0 ? k : 0)];
        out.e[k] = Step::apply(in.e[k], scale, offset);
    }
    *(DEVICE Pack<To, N>*)((DEVICE To*)dst + at[0]) = out;
}

#define APPLY(N) several<N>(dst, src, scales, zeros, at, p.zero);
KERNEL_4(dst, src, scales, zeros) {
    const Thread t = THREAD;
    FOR_ALL_ELEMENTS(4, APPLY)
}
#undef APPLY
