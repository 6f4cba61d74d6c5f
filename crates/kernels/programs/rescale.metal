// What is made of exact sums of integers: `activation(a_scale · b_scale · sum + bias + residual)`, and 8-bit
// integers with a scale again where DST is such. BIAS is the element type of the bias; one of i32 is added to
// the sum. Every step is rounded by itself, so that integers are the same everywhere.

typedef Index<WIDE>::Type I;
#define IS_BYTE (DST == U8 || DST == I8)
#define ADDED (IS_BYTE ? F32 : DST)
typedef Element<DST>::Stored To;

template <int N> FN void rescale(DEVICE u8* dst, DEVICE const u8* sums, DEVICE const u8* a_scales,
                                 DEVICE const u8* b_scales, DEVICE const u8* bias, DEVICE const u8* residual,
                                 IN_THREAD const I* at, IN_PARAMS Params& p, f32 dst_scale, f32 dst_zero) {
    const Values<I32, N> sum = load_values<I32, N, (STEPS & 2)>(sums, at[1]);
    const Values<F32, N> a = load_values<F32, N, (STEPS & 4)>(a_scales, at[2]);
    const Values<F32, N> b = load_values<F32, N, (STEPS & 8)>(b_scales, at[3]);
    f32 y[N];
    if (p.has_bias != 0) {
        const Values<BIAS, N> more = load_values<BIAS, N, (STEPS & 16)>(bias, at[4]);
        for (int k = 0; k < N; ++k) {
#if BIAS == I32
            y[k] = exact_mul(exact_mul(a.e[k], b.e[k]), (f32)wrapping_add(sum.e[k], more.e[k]));
#else
            y[k] = exact_add(exact_mul(exact_mul(a.e[k], b.e[k]), (f32)sum.e[k]), more.e[k]);
#endif
        }
    } else {
        for (int k = 0; k < N; ++k) y[k] = exact_mul(exact_mul(a.e[k], b.e[k]), (f32)sum.e[k]);
    }
    if (p.has_residual != 0) {
        const Values<ADDED, N> more = load_values<ADDED, N, (STEPS & 32)>(residual, at[5]);
        for (int k = 0; k < N; ++k) y[k] = exact_add(y[k], more.e[k]);
    }
    Pack<To, N> out;
    for (int k = 0; k < N; ++k) {
        const f32 x = activate_any(p.act, y[k], p.first, p.second);
#if IS_BYTE
        const f32 quotient = m_round_even(x / dst_scale);
        out.e[k] = Element<DST>::put((is_nan(quotient) ? 0.0f : quotient) + dst_zero);
#else
        out.e[k] = Element<DST>::put(x);
#endif
    }
    *(DEVICE Pack<To, N>*)((DEVICE To*)dst + at[0]) = out;
}

KERNEL_8(dst, sums, a_scales, b_scales, bias, residual, dst_scales, dst_zeros) {
    const Thread t = THREAD;
    f32 dst_scale = 1.0f, dst_zero = 0.0f;
#if IS_BYTE
    dst_scale = ((DEVICE const f32*)dst_scales)[p.dst_scale];
    if (p.has_zero != 0) dst_zero = (f32)((DEVICE const To*)dst_zeros)[p.dst_zero];
#endif
#define APPLY(N) rescale<N>(dst, sums, a_scales, b_scales, bias, residual, at, p, dst_scale, dst_zero);
    FOR_ALL_ELEMENTS(6, APPLY)
#undef APPLY
}
