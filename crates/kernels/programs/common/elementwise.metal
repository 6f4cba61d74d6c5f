// Operations that treat every element alike: vectors of elements, and the loop over all of them.
template <int D, int N> struct Values {
    typename Element<D>::Value e[N];
};

// N elements from `at` on, or one element N times where the operand does not step.
template <int D, int N, int STEP, typename I> FN Values<D, N> load_values(DEVICE const u8* buffer, I at) {
    typedef typename Element<D>::Stored S;
    Values<D, N> values;
    if (N > 1 && STEP == 0) {
        const typename Element<D>::Value one = Element<D>::get(((DEVICE const S*)buffer)[at]);
        for (int k = 0; k < N; ++k) values.e[k] = one;
    } else {
        const Pack<S, N> pack = *(DEVICE const Pack<S, N>*)((DEVICE const S*)buffer + at);
        for (int k = 0; k < N; ++k) values.e[k] = Element<D>::get(pack.e[k]);
    }
    return values;
}
template <int D, int N, typename I> FN void store_values(DEVICE u8* buffer, I at, Values<D, N> values) {
    typedef typename Element<D>::Stored S;
    Pack<S, N> pack;
    for (int k = 0; k < N; ++k) pack.e[k] = Element<D>::put(values.e[k]);
    *(DEVICE Pack<S, N>*)((DEVICE S*)buffer + at) = pack;
}

// Calls APPLY(N) with the positions `at` of N elements at a time, until all of `p.walk` is done. Needs
// `t`, `I`, and the constants RANK, VECTOR and STEPS.
#define FOR_ALL_ELEMENTS(OPERANDS, APPLY) \
    for (I i = first_item<I>(t); i < (I)p.walk.count; i += all_items<I>(t)) { \
        I at[OPERANDS]; \
        locate<RANK, OPERANDS, I>(p.walk, i, at); \
        APPLY(VECTOR) \
    } \
    if (VECTOR > 1 && RANK == 1) { \
        for (u32 i = first_item<u32>(t); i < p.tail; i += all_items<u32>(t)) { \
            I at[OPERANDS]; \
            locate_tail<OPERANDS, I, VECTOR>(p.walk, i, STEPS, at); \
            APPLY(1) \
        } \
    }

// Integers wrap around, which only unsigned ones do without saying.
FN u32 as_unsigned(i32 x) { return (u32)x; }
FN u64 as_unsigned(i64 x) { return (u64)x; }
FN u32 as_unsigned(u32 x) { return x; }
FN u64 as_unsigned(u64 x) { return x; }
template <typename T> FN T wrapping_add(T a, T b) { return (T)(as_unsigned(a) + as_unsigned(b)); }
template <typename T> FN T wrapping_sub(T a, T b) { return (T)(as_unsigned(a) - as_unsigned(b)); }
template <typename T> FN T wrapping_mul(T a, T b) { return (T)(as_unsigned(a) * as_unsigned(b)); }
template <typename T> FN T wrapping_neg(T a) { return wrapping_sub((T)0, a); }
