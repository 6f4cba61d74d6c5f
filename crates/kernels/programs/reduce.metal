// Combines elements. OP as ReduceOp counts. MODE says who makes an output: 0 a thread, 1 a simd group,
// 2 a group. STAGE: 0 all at once, 1 from elements to states of parts, 2 from states of parts to outputs.

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Value T;
#define IS_FLOAT (DTYPE <= F64)
#define SUM (OP == 0 || OP == 1 || OP == 5 || OP == 6)

#if OP == 7
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
    // The first of the best; NaN is better than any number.
    FN bool beats(State a, State b) {
        if (a.index == ~(u64)0 || b.index == ~(u64)0) return b.index == ~(u64)0;
        const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
        if (a_nan || b_nan) return a_nan && (!b_nan || a.index < b.index);
        if (a.value == b.value) return a.index < b.index;
        return OP == 8 ? a.value > b.value : a.value < b.value;
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
// Max and Min start without a value, since integers have no infinity.
struct State {
    T value;
#if OP == 2 || OP == 3
    u32 any;
#endif
    FN State empty() {
        State s;
        s.value = OP == 4 ? (T)1 : (T)0;
#if OP == 2 || OP == 3
        s.any = 0;
#endif
        return s;
    }
    FN State join(State a, State b) {
#if OP == 2 || OP == 3
        if (b.any == 0) return a;
        if (a.any == 0) return b;
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
#if OP == 2 || OP == 3
        s.any = lane_xor(a.any, mask);
#endif
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
#if OP == 2 || OP == 3
    one.any = 1;
#endif
    return State::join(s, one);
}
#endif

FN typename Element<TO>::Value finish(State s, u64 count) {
#if OP == 1
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
