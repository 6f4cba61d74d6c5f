// What a library's matrix product leaves to be done: dst = activation(dst + bias + residual). Operands
// that are absent are given as dst; bits of HAS say which there are.

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Value T;

template <int N>
FN void epilogue(DEVICE u8* dst, DEVICE const u8* bias, DEVICE const u8* residual, IN_THREAD const I* at,
                 T a, T b) {
    Values<DTYPE, N> x = load_values<DTYPE, N, 1>(dst, at[0]);
    if ((HAS & 1) != 0) {
        const Values<DTYPE, N> y = load_values<DTYPE, N, (STEPS & 2)>(bias, at[1]);
        for (int k = 0; k < N; ++k) x.e[k] += y.e[k];
    }
    if ((HAS & 2) != 0) {
        const Values<DTYPE, N> y = load_values<DTYPE, N, (STEPS & 4)>(residual, at[2]);
        for (int k = 0; k < N; ++k) x.e[k] += y.e[k];
    }
    for (int k = 0; k < N; ++k) x.e[k] = activate<ACT, T>(x.e[k], a, b);
    store_values<DTYPE, N>(dst, at[0], x);
}

KERNEL_3(dst, bias, residual) {
    const Thread t = THREAD;
#define APPLY(N) epilogue<N>(dst, bias, residual, at, (T)p.a, (T)p.b);
    FOR_ALL_ELEMENTS(3, APPLY)
#undef APPLY
}
