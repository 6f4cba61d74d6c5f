// One of two elements, by a condition. SIZE is the size of an element: what it means does not matter.

typedef Index<WIDE>::Type I;
typedef Raw<SIZE>::Stored S;

template <int N, int STEP> FN Pack<S, N> take(DEVICE const u8* buffer, I at) {
    if (N > 1 && STEP == 0) {
        Pack<S, N> pack;
        for (int k = 0; k < N; ++k) pack.e[k] = ((DEVICE const S*)buffer)[at];
        return pack;
    }
    return *(DEVICE const Pack<S, N>*)((DEVICE const S*)buffer + at);
}

template <int N>
FN void choose(DEVICE u8* dst, DEVICE const u8* condition, DEVICE const u8* a, DEVICE const u8* b,
               IN_THREAD const I* at) {
    const Values<BOOL, N> holds = load_values<BOOL, N, (STEPS & 2)>(condition, at[1]);
    const Pack<S, N> x = take<N, (STEPS & 4)>(a, at[2]);
    Pack<S, N> y = take<N, (STEPS & 8)>(b, at[3]);
    for (int k = 0; k < N; ++k) {
        if (holds.e[k] != 0) y.e[k] = x.e[k];
    }
    *(DEVICE Pack<S, N>*)((DEVICE S*)dst + at[0]) = y;
}

KERNEL_4(dst, condition, a, b) {
    const Thread t = THREAD;
#define APPLY(N) choose<N>(dst, condition, a, b, at);
    FOR_ALL_ELEMENTS(4, APPLY)
#undef APPLY
}
