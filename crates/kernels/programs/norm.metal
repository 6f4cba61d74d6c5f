// Layer, group and root-mean-square normalisation. MODE says who makes a row: 0 a thread, 1 a simd
// group, 2 a group. Operands are dst, src, weight and bias; bits of HAS say which of the last two there
// are, and RMS leaves the mean out. The variance is that of distances from the mean, never a difference
// of squares. Where there is a constant MOMENTS, mean and inverse deviation of each row are given too, and it is the
// rank of the walk over them. Rows of whole vectors, at most HELD for each worker, are read once and kept; HELD is 0 for others.

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Value T;

// The sum of f(x) over a row: x itself, or the square of its distance from the mean.
FN T row_sum(DEVICE const u8* src, IN_PARAMS Params& p, I start, bool squares, T mean, I own, I workers) {
    const I size = (I)p.row.count;
    T sum = (T)0;
    I whole = 0;
    if (VECTOR > 1) {
        const I vectors = size / VECTOR;
        for (I v = own; v < vectors; v += workers) {
            const Values<DTYPE, VECTOR> x = load_values<DTYPE, VECTOR, 1>(src, start + v * VECTOR);
            for (int k = 0; k < VECTOR; ++k) {
                const T d = x.e[k] - mean;
                sum += squares ? d * d : d;
            }
        }
        whole = vectors * VECTOR;
    }
    for (I i = whole + own; i < size; i += workers) {
        I at[4];
        locate<RANK, 4, I>(p.row, i, at);
        const T d = load<DTYPE>(src, start + at[1]) - mean;
        sum += squares ? d * d : d;
    }
    return sum;
}

#if HELD > 0
// The same of elements that are kept.
FN T held_sum(IN_THREAD const Values<DTYPE, VECTOR>* held, bool squares, T mean, I own, I workers, I vectors) {
    T sum = (T)0;
    UNROLL for (u32 v = 0; v < HELD; ++v) {
        if (own + v * workers < vectors) {
            UNROLL for (int k = 0; k < VECTOR; ++k) {
                const T d = held[v].e[k] - mean;
                sum += squares ? d * d : d;
            }
        }
    }
    return sum;
}
#endif

FN T normal(T x, T mean, T inverse, T weight, T bias) {
    x = (x - mean) * inverse;
    if ((HAS & 1) != 0) x *= weight;
    if ((HAS & 2) != 0) x += bias;
    return x;
}

KERNEL_6(dst, src, weight, bias, means, inverses) {
    const Thread t = THREAD;
#if MODE == 2
    SHARED T scratch[32];
#define TOTAL(x) group_join<Sum, T>(t, x, (T)0, scratch)
    const I first = t.group, step = t.groups, own = t.index, workers = t.count;
#elif MODE == 1
#define TOTAL(x) lanes_join<Sum, T>(x)
    const I first = (I)t.group * (t.count / 32) + t.simd, step = (I)t.groups * (t.count / 32);
    const I own = t.lane, workers = 32;
#else
#define TOTAL(x) (x)
    const I first = first_item<I>(t), step = all_items<I>(t), own = 0, workers = 1;
#endif
    const I size = (I)p.row.count;
    const T count = (T)p.row.count;
    for (I row = first; row < (I)p.rows.count; row += step) {
        I from[4];
        locate<KEPT, 4, I>(p.rows, row, from);
#if HELD > 0
        const I vectors = size / VECTOR;
        Values<DTYPE, VECTOR> x[HELD], w[HELD], b[HELD];
        UNROLL for (u32 v = 0; v < HELD; ++v) {
            const I i = (own + v * workers) * VECTOR;
            if (i < size) {
                x[v] = load_values<DTYPE, VECTOR, 1>(src, from[1] + i);
                if ((HAS & 1) != 0) w[v] = load_values<DTYPE, VECTOR, 1>(weight, from[2] + i);
                if ((HAS & 2) != 0) b[v] = load_values<DTYPE, VECTOR, 1>(bias, from[3] + i);
            }
        }
        T mean = (T)0;
        if (!RMS) mean = TOTAL(held_sum(x, false, (T)0, own, workers, vectors)) / count;
        const T variance = TOTAL(held_sum(x, true, mean, own, workers, vectors)) / count;
        const T inverse = (T)1 / m_sqrt(variance + (T)p.epsilon);
        UNROLL for (u32 v = 0; v < HELD; ++v) {
            const I i = (own + v * workers) * VECTOR;
            if (i < size) {
                UNROLL for (int k = 0; k < VECTOR; ++k) {
                    x[v].e[k] = normal(x[v].e[k], mean, inverse, w[v].e[k], b[v].e[k]);
                }
                store_values<DTYPE, VECTOR>(dst, from[0] + i, x[v]);
            }
        }
#else
        T mean = (T)0;
        if (!RMS) mean = TOTAL(row_sum(src, p, from[1], false, (T)0, own, workers)) / count;
        const T variance = TOTAL(row_sum(src, p, from[1], true, mean, own, workers)) / count;
        const T inverse = (T)1 / m_sqrt(variance + (T)p.epsilon);
        I whole = 0;
        if (VECTOR > 1) {
            const I vectors = size / VECTOR;
            for (I v = own; v < vectors; v += workers) {
                const I i = v * VECTOR;
                Values<DTYPE, VECTOR> x = load_values<DTYPE, VECTOR, 1>(src, from[1] + i), w = x, b = x;
                if ((HAS & 1) != 0) w = load_values<DTYPE, VECTOR, 1>(weight, from[2] + i);
                if ((HAS & 2) != 0) b = load_values<DTYPE, VECTOR, 1>(bias, from[3] + i);
                for (int k = 0; k < VECTOR; ++k) x.e[k] = normal(x.e[k], mean, inverse, w.e[k], b.e[k]);
                store_values<DTYPE, VECTOR>(dst, from[0] + i, x);
            }
            whole = vectors * VECTOR;
        }
        for (I i = whole + own; i < size; i += workers) {
            I at[4];
            locate<RANK, 4, I>(p.row, i, at);
            const T w = (HAS & 1) != 0 ? load<DTYPE>(weight, from[2] + at[2]) : (T)1;
            const T b = (HAS & 2) != 0 ? load<DTYPE>(bias, from[3] + at[3]) : (T)0;
            const T x = load<DTYPE>(src, from[1] + at[1]);
            store<DTYPE>(dst, from[0] + at[0], normal(x, mean, inverse, w, b));
        }
#endif
#ifdef MOMENTS
        // Behind the row, which may lie in the same place if it is one element.
        if (own == 0) {
            I at[2];
            locate<MOMENTS, 2, I>(p.moments, row, at);
            ((DEVICE f32*)means)[at[0]] = (f32)mean;
            ((DEVICE f32*)inverses)[at[1]] = (f32)inverse;
        }
#endif
    }
#undef TOTAL
}
