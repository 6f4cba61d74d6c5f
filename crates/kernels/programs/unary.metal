// Functions of one element. DTYPE is the type of the input, TO of the output; OP numbers as in unary.rs.

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Value T;
#define IS_FLOAT (DTYPE <= F64)

#if IS_FLOAT
#if TO == BOOL
FN i32 apply(T x, T a, T b) {
    if (OP == 45) return is_nan(x) ? 1 : 0;
    return is_infinite(x) && (x > (T)0 ? a : b) != (T)0 ? 1 : 0;
}
#else
FN T softplus(T x) { return m_log1p(m_exp(-m_abs(x))) + m_max(x, (T)0); }

FN T apply(T x, T a, T b) {
#if OP == 0
    return m_abs(x);
#elif OP == 1
    return -x;
#elif OP == 2
    return x > (T)0 ? (T)1 : x < (T)0 ? (T)-1 : x;
#elif OP == 3
    return x < (T)0 ? (T)0 : x;
#elif OP == 4
    return m_exp(x);
#elif OP == 5
    return m_expm1(x);
#elif OP == 6
    return m_log(x);
#elif OP == 7
    return m_log1p(x);
#elif OP == 8
    return m_log2(x);
#elif OP == 9
    return m_sqrt(x);
#elif OP == 10
    return m_rsqrt(x);
#elif OP == 11
    return (T)1 / x;
#elif OP == 12
    return x * x;
#elif OP == 13
    return m_sin(x);
#elif OP == 14
    return m_cos(x);
#elif OP == 15
    return m_tan(x);
#elif OP == 16
    return m_asin(x);
#elif OP == 17
    return m_acos(x);
#elif OP == 18
    return m_atan(x);
#elif OP == 19
    return m_sinh(x);
#elif OP == 20
    return m_cosh(x);
#elif OP == 21
    return m_tanh(x);
#elif OP == 22
    return m_asinh(x);
#elif OP == 23
    return m_acosh(x);
#elif OP == 24
    return m_atanh(x);
#elif OP == 25
    return m_erf(x);
#elif OP == 26
    return m_floor(x);
#elif OP == 27
    return m_ceil(x);
#elif OP == 28
    return m_round_even(x);
#elif OP == 29
    return m_trunc(x);
#elif OP == 30
    return sigmoid(x);
#elif OP == 31
    return m_min(m_max(a * x + b, (T)0), (T)1);
#elif OP == 32
    return hard_swish(x);
#elif OP == 33
    return silu(x);
#elif OP == 34
    return gelu(x);
#elif OP == 35
    return gelu_tanh(x);
#elif OP == 36
    return softplus(x);
#elif OP == 37
    return x / ((T)1 + m_abs(x));
#elif OP == 38
    return x * m_tanh(softplus(x));
#elif OP == 39
    return x < (T)0 ? a * x : x;
#elif OP == 40
    return x < (T)0 ? a * m_expm1(x) : x;
#elif OP == 41
    return x < (T)0 ? a * m_expm1(x / a) : x;
#elif OP == 42
    return b * (x < (T)0 ? a * m_expm1(x) : x);
#elif OP == 43
    return x > a ? x : (T)0;
#elif OP == 44
    return m_abs(x) <= a ? (T)0 : x < (T)0 ? x + b : x - b;
#else
#error "no such function"
#endif
}
#endif
#else
FN T apply(T x, T, T) {
#if OP == 0
    return x < 0 ? wrapping_neg(x) : x;
#elif OP == 1
    return wrapping_neg(x);
#elif OP == 2
    return x > 0 ? (T)1 : x < 0 ? (T)-1 : (T)0;
#elif OP == 3
    return x < 0 ? 0 : x;
#elif OP == 12
    return wrapping_mul(x, x);
#elif OP == 47
    return DTYPE == BOOL ? (T)(x == 0) : ~x;
#else
#error "no such function of integers"
#endif
}
#endif

// Chains take what is above.
template <int N> FN void unary(DEVICE u8* dst, DEVICE const u8* src, IN_THREAD const I* at, f32 a, f32 b) {
    const Values<DTYPE, N> x = load_values<DTYPE, N, (STEPS & 2)>(src, at[1]);
    Values<TO, N> y;
    for (int k = 0; k < N; ++k) y.e[k] = apply(x.e[k], (T)a, (T)b);
    store_values<TO, N>(dst, at[0], y);
}

KERNEL_2(dst, src) {
    const Thread t = THREAD;
#define APPLY(N) unary<N>(dst, src, at, p.a, p.b);
    FOR_ALL_ELEMENTS(2, APPLY)
#undef APPLY
}
