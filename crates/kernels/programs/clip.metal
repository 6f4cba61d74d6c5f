// Limits each element. The limits are the bytes of elements; bits of HAS say which there are.

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Stored S;
typedef Element<DTYPE>::Value T;

FN T limit(u64 bits) {
#if DTYPE == F32
    return f32_of((u32)bits);
#elif DTYPE == F64
    return f64_of(bits);
#else
    return Element<DTYPE>::get((S)bits);
#endif
}

FN T apply(T x, T low, T high) {
    const T above = (HAS & 1) != 0 && x < low ? low : x;
    return (HAS & 2) != 0 && above > high ? high : above;
}

// Chains take what is above.
template <int N> FN void clip(DEVICE u8* dst, DEVICE const u8* src, IN_THREAD const I* at, T low, T high) {
    Values<DTYPE, N> x = load_values<DTYPE, N, (STEPS & 2)>(src, at[1]);
    for (int k = 0; k < N; ++k) x.e[k] = apply(x.e[k], low, high);
    store_values<DTYPE, N>(dst, at[0], x);
}

KERNEL_2(dst, src) {
    const Thread t = THREAD;
    const T low = limit(p.low);
    const T high = limit(p.high);
#define APPLY(N) clip<N>(dst, src, at, low, high);
    FOR_ALL_ELEMENTS(2, APPLY)
#undef APPLY
}
