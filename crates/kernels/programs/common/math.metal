// Functions that a dialect lacks.
FN bool is_nan(f32 x) { return x != x; }
FN bool is_infinite(f32 x) { return (bits_of(x) & 0x7fffffffu) == 0x7f800000u; }
#if HAS_F64
FN bool is_nan(f64 x) { return x != x; }
FN bool is_infinite(f64 x) { return (bits_of(x) & 0x7fffffffffffffffu) == 0x7ff0000000000000u; }
#endif
// The larger or smaller of two; NaN wins.
template <typename T> FN T m_max(T a, T b) { return a != a || a > b ? a : b; }
template <typename T> FN T m_min(T a, T b) { return a != a || a < b ? a : b; }

#ifdef PORTABLE_MATH
// By the quotient of two functions that are off by the same factor.
FN f32 m_expm1(f32 x) {
    const f32 u = m_exp(x);
    if (u == 1.0f || is_nan(x)) return x;
    if (u - 1.0f == -1.0f) return -1.0f;
    if (u > 1.0e8f) return u;
    return (u - 1.0f) * (x / m_log(u));
}
FN f32 m_log1p(f32 x) {
    const f32 u = 1.0f + x;
    if (u == 1.0f || (is_infinite(x) && x > 0.0f)) return x;
    return m_log(u) * (x / (u - 1.0f));
}
FN f32 m_erf(f32 x) {
    const f32 a = m_abs(x);
    if (is_nan(x)) return x;
    if (a < 1.0f) {
        // The power series.
        const f32 s = -x * x;
        f32 sum = 1.0f, term = 1.0f;
        for (int n = 1; n <= 10; ++n) {
            term = term * s / (f32)n;
            sum += term / (f32)(2 * n + 1);
        }
        return 1.12837916709551257f * x * sum;
    }
    // Abramowitz and Stegun, formula 7.1.26.
    const f32 t = 1.0f / (1.0f + 0.3275911f * a);
    const f32 q = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    const f32 y = a > 6.0f ? 1.0f : 1.0f - q * m_exp(-a * a);
    return x < 0.0f ? -y : y;
}
FN f32 m_asinh(f32 x) {
    const f32 a = m_abs(x);
    const f32 y = a > 1.0e8f ? m_log(a) + 0.693147180559945309f
                             : m_log1p(a + a * a / (1.0f + m_sqrt(a * a + 1.0f)));
    return x < 0.0f ? -y : (x == 0.0f ? x : y);
}
FN f32 m_acosh(f32 x) {
    if (!(x >= 1.0f)) return f32_of(0x7fc00000u);
    if (x > 1.0e8f) return m_log(x) + 0.693147180559945309f;
    const f32 d = x - 1.0f;
    return m_log1p(d + m_sqrt(d * (x + 1.0f)));
}
FN f32 m_atanh(f32 x) {
    const f32 a = m_abs(x);
    const f32 y = 0.5f * m_log1p(2.0f * a / (1.0f - a));
    return x < 0.0f ? -y : (x == 0.0f ? x : y);
}
// The exact remainder with the sign of x, bit by bit: a quotient may have more bits than f32 holds.
FN f32 m_fmod(f32 x, f32 y) {
    const u32 sign = bits_of(x) & 0x80000000u;
    u32 a = bits_of(x) & 0x7fffffffu, b = bits_of(y) & 0x7fffffffu;
    if (a >= 0x7f800000u || b > 0x7f800000u || b == 0) return f32_of(0x7fc00000u);
    if (a < b) return x;
    i32 ea = (i32)(a >> 23), eb = (i32)(b >> 23);
    a &= 0x7fffffu;
    b &= 0x7fffffu;
    // Subnormal numbers get their leading bit, and exponents that f32 does not have.
    if (ea != 0) a |= 0x800000u; else for (ea = 1; a < 0x800000u; --ea) a <<= 1;
    if (eb != 0) b |= 0x800000u; else for (eb = 1; b < 0x800000u; --eb) b <<= 1;
    for (; ea > eb; --ea) {
        if (a >= b) a -= b;
        a <<= 1;
    }
    if (a >= b) a -= b;
    if (a == 0) return f32_of(sign);
    for (; a < 0x800000u; --eb) a <<= 1;
    if (eb < 1) return f32_of(sign | a >> (1 - eb));
    return f32_of(sign | ((u32)eb << 23) | (a & 0x7fffffu));
}
#endif

// Activations, numbered as `activation_code` of the Rust side numbers them.
#define ACT_NONE 0
#define ACT_RELU 1
#define ACT_GELU 2
#define ACT_GELU_TANH 3
#define ACT_SILU 4
#define ACT_SIGMOID 5
#define ACT_TANH 6
#define ACT_LEAKY_RELU 7
#define ACT_HARD_SWISH 8
#define ACT_CLIP 9
template <typename T> FN T sigmoid(T x) { return (T)1 / ((T)1 + m_exp(-x)); }
template <typename T> FN T silu(T x) { return x / ((T)1 + m_exp(-x)); }
template <typename T> FN T gelu(T x) { return (T)0.5f * x * ((T)1 + m_erf(x * (T)0.70710678118654752440)); }
template <typename T> FN T gelu_tanh(T x) {
    const T inner = (T)0.79788456080286535588 * (x + (T)0.044715 * x * x * x);
    return (T)0.5f * x * ((T)1 + m_tanh(inner));
}
template <typename T> FN T hard_swish(T x) { return x * m_min(m_max(x + (T)3, (T)0), (T)6) / (T)6; }
// `a` and `b` are the slope, or the limits of a clip.
template <int ACT, typename T> FN T activate(T x, T a, T b) {
    if (ACT == ACT_RELU) return x > (T)0 || x != x ? x : (T)0;
    if (ACT == ACT_GELU) return gelu(x);
    if (ACT == ACT_GELU_TANH) return gelu_tanh(x);
    if (ACT == ACT_SILU) return silu(x);
    if (ACT == ACT_SIGMOID) return sigmoid(x);
    if (ACT == ACT_TANH) return m_tanh(x);
    if (ACT == ACT_LEAKY_RELU) return x < (T)0 ? a * x : x;
    if (ACT == ACT_HARD_SWISH) return hard_swish(x);
    if (ACT == ACT_CLIP) return m_min(m_max(x, a), b);
    return x;
}
// The same where the number of the activation is only known at run time: for kernels that are not worth one
// more for each activation.
template <typename T> FN T activate_any(u32 act, T x, T a, T b) {
    if (act == ACT_RELU) return activate<ACT_RELU>(x, a, b);
    if (act == ACT_GELU) return activate<ACT_GELU>(x, a, b);
    if (act == ACT_GELU_TANH) return activate<ACT_GELU_TANH>(x, a, b);
    if (act == ACT_SILU) return activate<ACT_SILU>(x, a, b);
    if (act == ACT_SIGMOID) return activate<ACT_SIGMOID>(x, a, b);
    if (act == ACT_TANH) return activate<ACT_TANH>(x, a, b);
    if (act == ACT_LEAKY_RELU) return activate<ACT_LEAKY_RELU>(x, a, b);
    if (act == ACT_HARD_SWISH) return activate<ACT_HARD_SWISH>(x, a, b);
    if (act == ACT_CLIP) return activate<ACT_CLIP>(x, a, b);
    return x;
}
