// Softmax along an axis, or its logarithm. MODE says who makes a row: 0 a thread, 1 a simd group, 2 a
// group. Rows are read twice: once for their sum, once to be written.

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Value T;
typedef Exponentials<T> State;

FN T share(State s, T x, T scale) {
    if (!is_finite(s.top)) return s.top - s.top;
    return LOG ? x - s.top - scale : m_exp(x - s.top) * scale;
}

KERNEL_2(dst, src) {
    const Thread t = THREAD;
#if MODE == 2
    SHARED State scratch[32];
    const I first = t.group, step = t.groups, own = t.index, workers = t.count;
#elif MODE == 1
    const I first = (I)t.group * (t.count / 32) + t.simd, step = (I)t.groups * (t.count / 32);
    const I own = t.lane, workers = 32;
#else
    const I first = first_item<I>(t), step = all_items<I>(t), own = 0, workers = 1;
#endif
    const I size = (I)p.size, to = (I)p.to, from = (I)p.from;
    for (I row = first; row < (I)p.rows.count; row += step) {
        I at[2];
        locate<RANK, 2, I>(p.rows, row, at);
        State s = State::empty();
        const I vectors = size / VECTOR;
        if (VECTOR > 1) {
            for (I v = own; v < vectors; v += workers) {
                const Values<DTYPE, VECTOR> x = load_values<DTYPE, VECTOR, 1>(src, at[1] + v * VECTOR);
                for (int k = 0; k < VECTOR; ++k) s = add_exponent(s, x.e[k]);
            }
        }
        const I rest = VECTOR > 1 ? vectors * VECTOR : 0;
        for (I i = rest + own; i < size; i += workers) s = add_exponent(s, load<DTYPE>(src, at[1] + i * from));
#if MODE == 2
        s = group_merge(t, s, scratch);
#elif MODE == 1
        s = lanes_merge(s);
#endif
        const T scale = LOG ? m_log(s.sum) : (T)1 / s.sum;
        if (VECTOR > 1) {
            for (I v = own; v < vectors; v += workers) {
                Values<DTYPE, VECTOR> x = load_values<DTYPE, VECTOR, 1>(src, at[1] + v * VECTOR);
                for (int k = 0; k < VECTOR; ++k) x.e[k] = share(s, x.e[k], scale);
                store_values<DTYPE, VECTOR>(dst, at[0] + v * VECTOR, x);
            }
        }
        for (I i = rest + own; i < size; i += workers) {
            store<DTYPE>(dst, at[0] + i * to, share(s, load<DTYPE>(src, at[1] + i * from), scale));
        }
    }
}
