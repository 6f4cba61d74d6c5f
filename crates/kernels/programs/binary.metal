// Functions of two elements. DTYPE is the type of the inputs, TO of the output; OP as BinaryOp counts.

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Value T;
typedef Element<TO>::Value R;
#define IS_FLOAT (DTYPE <= F64)
// Of the types that are computed with: smaller ones are computed with as i32.
#define IS_SIGNED (DTYPE != U32 && DTYPE != U64)

#if OP == 4 && !IS_FLOAT
// A fraction counts as 0.
FN T power(T base, T exponent) {
    if (exponent < 0) {
        if (base == 1) return 1;
        if (base == (T)-1) return (exponent & 1) == 0 ? 1 : base;
        return 0;
    }
    T result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) != 0) result = wrapping_mul(result, base);
        base = wrapping_mul(base, base);
    }
    return result;
}
#endif
#if OP == 3 && !IS_FLOAT
FN T divide(T a, T b) {
    // The lowest number by -1 overflows, which traps on some machines.
    return b == 0 ? (T)0 : IS_SIGNED && b == (T)-1 ? wrapping_neg(a) : a / b;
}
#endif
#if (OP == 7 || OP == 8)
FN T remainder(T a, T b) {
#if IS_FLOAT
    return m_fmod(a, b);
#else
    return b == 0 || (IS_SIGNED && b == (T)-1) ? (T)0 : a % b;
#endif
}
#endif

FN R apply(T a, T b) {
#if OP == 0
#if IS_FLOAT
    return exact_add(a, b);
#else
    return wrapping_add(a, b);
#endif
#elif OP == 1
#if IS_FLOAT
    return exact_add(a, -b);
#else
    return wrapping_sub(a, b);
#endif
#elif OP == 2
#if IS_FLOAT
    return exact_mul(a, b);
#else
    return wrapping_mul(a, b);
#endif
#elif OP == 3
#if IS_FLOAT
    return a / b;
#else
    return divide(a, b);
#endif
#elif OP == 4
#if IS_FLOAT
    return m_pow(a, b);
#else
    return power(a, b);
#endif
#elif OP == 5
    return m_min(a, b);
#elif OP == 6
    return m_max(a, b);
#elif OP == 7
    const T rest = remainder(a, b);
    return rest != (T)0 && (rest < (T)0) != (b < (T)0) ? rest + b : rest;
#elif OP == 8
    return remainder(a, b);
#elif OP == 9
    return m_atan2(a, b);
#elif OP == 10
#if IS_FLOAT
    return a >= (T)0 ? a : exact_mul(a, b);
#else
    return a >= 0 ? a : wrapping_mul(a, b);
#endif
#elif OP == 11
    return a == b ? 1 : 0;
#elif OP == 12
    return a != b ? 1 : 0;
#elif OP == 13
    return a < b ? 1 : 0;
#elif OP == 14
    return a <= b ? 1 : 0;
#elif OP == 15
    return a > b ? 1 : 0;
#elif OP == 16
    return a >= b ? 1 : 0;
#elif OP == 17
    return a & b;
#elif OP == 18
    return a | b;
#elif OP == 19
    return a ^ b;
#elif OP == 20
    return b < 0 || b >= (T)(8 * sizeof(Element<DTYPE>::Stored)) ? (T)0 : (T)(as_unsigned(a) << b);
#elif OP == 21
    // Of a negative number the sign is left.
    return b < 0 || b >= (T)(8 * sizeof(Element<DTYPE>::Stored)) ? (T)(a < 0 ? -1 : 0) : a >> b;
#else
#error "no such function"
#endif
}

// Chains take what is above.
template <int N> FN void binary(DEVICE u8* dst, DEVICE const u8* a, DEVICE const u8* b, IN_THREAD const I* at) {
    const Values<DTYPE, N> x = load_values<DTYPE, N, (STEPS & 2)>(a, at[1]);
    const Values<DTYPE, N> y = load_values<DTYPE, N, (STEPS & 4)>(b, at[2]);
    Values<TO, N> z;
    for (int k = 0; k < N; ++k) z.e[k] = apply(x.e[k], y.e[k]);
    store_values<TO, N>(dst, at[0], z);
}

KERNEL_3(dst, a, b) {
    const Thread t = THREAD;
#define APPLY(N) binary<N>(dst, a, b, at);
    FOR_ALL_ELEMENTS(3, APPLY)
#undef APPLY
}
