// Combines elements. OP as ReduceOp counts. MODE says who makes an output: 0 a thread, 1 a simd group,
// 2 a group. STAGE: 0 all at once, 1 from elements to states of parts, 2 from states of parts to outputs.

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Value T;
#define IS_FLOAT (DTYPE <= F64)
#define IS_EXTREME (OP == 2 || OP == 3)
#undef LOWEST
#undef HIGHEST
#if DTYPE == I8
#define LOWEST (-128)
#define HIGHEST 127
#elif DTYPE == U8
#define LOWEST 0
#define HIGHEST 255
#elif DTYPE == BOOL
#define LOWEST 0
#define HIGHEST 1
#elif DTYPE == I32
#define LOWEST (-2147483647 - 1)
#define HIGHEST 2147483647
#elif DTYPE == I16
#define LOWEST (-32768)
#define HIGHEST 32767
#elif DTYPE == U16
#define LOWEST 0
#define HIGHEST 65535
#elif DTYPE == U32
#define LOWEST 0
#define HIGHEST 0xffffffffu
#elif DTYPE == U64
#define LOWEST 0
#define HIGHEST (~(u64)0)
#elif DTYPE == I64
#define LOWEST (-(i64)0x7fffffffffffffff - 1)
#define HIGHEST ((i64)0x7fffffffffffffff)
#else
#define LOWEST (-(T)INFINITE)
#define HIGHEST ((T)INFINITE)
#endif

// Integers of 64 bits.
#if DTYPE == U32 || DTYPE == U64
typedef u64 W;
#else
typedef i64 W;
#endif

#if OP == 6 && !IS_FLOAT
// A sum of squares of 128 bits, which saturates.
struct State {
    u64 high, low;
    FN State empty() {
        State s;
        s.high = 0;
        s.low = 0;
        return s;
    }
    FN State join(State a, State b) {
        State s;
        s.low = a.low + b.low;
        const u64 carry = s.low < a.low ? 1 : 0;
        const u64 high = a.high + b.high;
        s.high = high + carry;
        if (high < a.high || s.high < high) {
            s.high = ~(u64)0;
            s.low = ~(u64)0;
        }
        return s;
    }
    FN State other(State a, u32 mask) {
        State s;
        s.high = lane_xor(a.high, mask);
        s.low = lane_xor(a.low, mask);
        return s;
    }
    FN State square(u64 x) {
        const u64 top = x >> 32, bottom = x & 0xffffffffu;
        const u64 middle = top * bottom;
        State s;
        s.low = bottom * bottom;
        s.high = top * top + (middle >> 31);
        const u64 before = s.low;
        s.low += middle << 33;
        if (s.low < before) s.high += 1;
        return s;
    }
};
FN State add(State s, T x, I) {
    const u64 size = x < 0 ? 0 - (u64)(i64)x : (u64)(i64)x;
    return State::join(s, State::square(size));
}
// The largest number whose square is not above the sum.
FN u64 root(State s) {
    u64 root = 0;
    for (u32 bit = 64; bit > 0; --bit) {
        const u64 next = root | (u64)1 << (bit - 1);
        const State square = State::square(next);
        if (square.high < s.high || (square.high == s.high && square.low <= s.low)) root = next;
    }
    return root;
}
#elif OP == 7 && !IS_FLOAT
// A sum of exponentials with an exact top. The sum is 0 of nothing, and at least 1 otherwise.
struct State {
    W top;
    f32 sum;
    FN State empty() {
        State s;
        s.top = 0;
        s.sum = 0.0f;
        return s;
    }
    FN f32 scaled(State s, W top) {
        return s.sum == 0.0f ? 0.0f : s.sum * m_exp(-(f32)((u64)top - (u64)s.top));
    }
    FN State join(State a, State b) {
        State s;
        s.top = b.sum == 0.0f || (a.sum != 0.0f && a.top > b.top) ? a.top : b.top;
        s.sum = scaled(a, s.top) + scaled(b, s.top);
        return s;
    }
    FN State other(State a, u32 mask) {
        State s;
        s.top = lane_xor(a.top, mask);
        s.sum = lane_xor(a.sum, mask);
        return s;
    }
};
FN State add(State s, T x, I) {
    State one;
    one.top = x;
    one.sum = 1.0f;
    return State::join(s, one);
}
#elif OP == 7
typedef Exponentials<T> State;
FN State add(State s, T x, I) { return add_exponent(s, x); }
#elif OP >= 8
struct State {
    T value;
    u64 index;
    FN State empty() {
        State s;
        s.value = (T)0;
        s.index = ~(u64)0;
        return s;
    }
    // The first, or last, of the best; NaN is better than any number.
    FN bool beats(State a, State b) {
        if (a.index == ~(u64)0 || b.index == ~(u64)0) return b.index == ~(u64)0;
        const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
        const bool sooner = OP >= 10 ? a.index > b.index : a.index < b.index;
        if (a_nan || b_nan) return a_nan && (!b_nan || sooner);
        if (a.value == b.value) return sooner;
        return OP == 8 || OP == 10 ? a.value > b.value : a.value < b.value;
    }
    FN State join(State a, State b) {
        if (beats(a, b)) return a;
        return b;
    }
    FN State other(State a, u32 mask) {
        State s;
        s.value = lane_xor(a.value, mask);
        s.index = lane_xor(a.index, mask);
        return s;
    }
};
FN State add(State s, T x, I i) {
    State one;
    one.value = x;
    one.index = (u64)i;
    return State::join(s, one);
}
#else
#if OP == 1 && !IS_FLOAT
typedef W V;
#else
typedef T V;
#endif
struct State {
    V value;
    FN State empty() {
        State s;
        s.value = OP == 4 ? (V)1 : OP == 2 ? (V)LOWEST : OP == 3 ? (V)HIGHEST : (V)0;
        return s;
    }
    FN State join(State a, State b) {
#if IS_EXTREME
        a.value = OP == 2 ? m_max(a.value, b.value) : m_min(a.value, b.value);
#elif OP == 4 && IS_FLOAT
        a.value = a.value * b.value;
#elif OP == 4
        a.value = wrapping_mul(a.value, b.value);
#elif IS_FLOAT
        a.value = a.value + b.value;
#else
        a.value = wrapping_add(a.value, b.value);
#endif
        return a;
    }
    FN State other(State a, u32 mask) {
        State s = a;
        s.value = lane_xor(a.value, mask);
        return s;
    }
};
FN State add(State s, T x, I) {
    State one = State::empty();
#if OP == 5 && IS_FLOAT
    x = m_abs(x);
#elif OP == 5
    x = x < 0 ? wrapping_neg(x) : x;
#elif OP == 6
    x = x * x;
#endif
    one.value = x;
    return State::join(s, one);
}
#endif

FN typename Element<TO>::Value finish(State s, u64 count) {
#if OP == 1 && !IS_FLOAT
    return (T)(s.value / (W)count);
#elif OP == 6 && !IS_FLOAT
    const u64 whole = root(s);
    return (T)(whole < (u64)HIGHEST ? whole : (u64)HIGHEST);
#elif OP == 7 && !IS_FLOAT
    if (s.sum == 0.0f) return LOWEST;
    const f32 more = m_log(s.sum);
    const W down = (W)m_floor(more), up = (W)m_ceil(more);
    // Below zero, towards zero is up.
    const W by = s.top < 0 && s.top + down < 0 ? up : down;
    return (T)(s.top > (W)HIGHEST - by ? (W)HIGHEST : s.top + by);
#elif OP == 1
    return s.value / (T)count;
#elif OP == 6
    return m_sqrt(s.value);
#elif OP == 7
    return is_finite(s.top) ? s.top + m_log(s.sum) : s.top;
#elif OP >= 8
    return (i64)s.index;
#else
    return s.value;
#endif
}

// Elements `begin .. end` of an output, of which this is worker `own` of `workers`.
FN State gather(DEVICE const u8* src, IN_PARAMS Params& p, I start, I begin, I end, I own, I workers) {
    State s = State::empty();
    I whole = begin;
    if (VECTOR > 1) {
        const I vectors = (end - begin) / VECTOR;
        for (I v = own; v < vectors; v += workers) {
            const I i = begin + v * VECTOR;
            const Values<DTYPE, VECTOR> x = load_values<DTYPE, VECTOR, 1>(src, start + i);
            for (int k = 0; k < VECTOR; ++k) s = add(s, x.e[k], i + k);
        }
        whole = begin + vectors * VECTOR;
    }
    for (I i = whole + own; i < end; i += workers) {
        I at[1];
        locate<RANK, 1, I>(p.reduced, i, at);
        s = add(s, load<DTYPE>(src, start + at[0]), i);
    }
    return s;
}

KERNEL_3(dst, src, parts) {
    const Thread t = THREAD;
    const I outputs = (I)p.kept.count;
    const I items = STAGE == 1 ? outputs * (I)p.chunks : outputs;
#if MODE == 2
    SHARED State scratch[32];
    const I first = t.group, step = t.groups, own = t.index, workers = t.count;
#elif MODE == 1
    const I first = (I)t.group * (t.count / 32) + t.simd, step = (I)t.groups * (t.count / 32);
    const I own = t.lane, workers = 32;
#else
    const I first = first_item<I>(t), step = all_items<I>(t), own = 0, workers = 1;
#endif
    // All threads of a simd group or group have the same item, so that they stay together.
    for (I item = first; item < items; item += step) {
        const I output = STAGE == 1 ? item % outputs : item;
        I at[2];
        locate<KEPT, 2, I>(p.kept, output, at);
        State s;
        if (STAGE == 2) {
            s = State::empty();
            for (I part = own; part < (I)p.chunks; part += workers) {
                s = State::join(s, ((DEVICE const State*)parts)[part * outputs + output]);
            }
        } else {
            const I chunk = STAGE == 1 ? (I)p.chunk : (I)p.reduced.count;
            const I begin = STAGE == 1 ? item / outputs * chunk : 0;
            const I all = (I)p.reduced.count;
            const I end = all - begin < chunk ? all : begin + chunk;
            s = gather(src, p, at[1], begin, end, own, workers);
        }
#if MODE == 2
        s = group_merge(t, s, scratch);
#elif MODE == 1
        s = lanes_merge(s);
#endif
        if (own == 0) {
            if (STAGE == 1) ((DEVICE State*)parts)[item] = s;
            else store<TO>(dst, at[0], finish(s, p.reduced.count));
        }
    }
}
