// What a library's matrix product leaves to be done: dst = activation(src + bias + residual). Operands
// that are absent are given as src; bits of HAS say which there are. In place, dst is src.

typedef Index<WIDE>::Type I;
typedef Element<SRC>::Value T;

template <int N>
FN void epilogue(DEVICE u8* dst, DEVICE const u8* src, DEVICE const u8* bias, DEVICE const u8* residual,
                 IN_THREAD const I* at, T a, T b) {
    const Values<SRC, N> x = load_values<SRC, N, (STEPS & 2)>(src, at[1]);
    Values<DST, N> y;
    for (int k = 0; k < N; ++k) y.e[k] = x.e[k];
    if ((HAS & 1) != 0) {
        const Values<DST, N> added = load_values<DST, N, (STEPS & 4)>(bias, at[2]);
        for (int k = 0; k < N; ++k) y.e[k] += added.e[k];
    }
    if ((HAS & 2) != 0) {
        const Values<DST, N> added = load_values<DST, N, (STEPS & 8)>(residual, at[3]);
        for (int k = 0; k < N; ++k) y.e[k] += added.e[k];
    }
    for (int k = 0; k < N; ++k) y.e[k] = activate<ACT, T>(y.e[k], a, b);
    store_values<DST, N>(dst, at[0], y);
}

KERNEL_4(dst, src, bias, residual) {
    const Thread t = THREAD;
#define APPLY(N) epilogue<N>(dst, src, bias, residual, at, (T)p.a, (T)p.b);
    FOR_ALL_ELEMENTS(4, APPLY)
#undef APPLY
}
