// Interpolation by the records that `resize_taps` has made. SCALED has a bit for each axis that changes, of
// which there are AXES. With NEAREST, TYPE is the size of what is moved at once. Integers are interpolated as f32.

typedef Index<WIDE>::Type I;

template <int WHOLE, int D> struct Kind {
    typedef typename Element<D>::Stored Stored;
    typedef f32 Value;
};
template <> struct Kind<0, F64> {
    typedef Element<F64>::Stored Stored;
    typedef Element<F64>::Value Value;
};
template <int D> struct Kind<1, D> {
    typedef typename Raw<D>::Stored Stored;
    typedef f32 Value;
};
typedef Kind<NEAREST, TYPE>::Stored Stored;
typedef Kind<NEAREST, TYPE>::Value Value;

struct Taps {
    i64 first, last;
    u32 count;
    I stride;
    DEVICE const Value* weights;
};

#if NEAREST
FN Stored outside_of(IN_PARAMS Params& p) { return RawFill<TYPE>::of(p.outside_bits); }
FN Stored mixed(DEVICE const u8* src, I at, IN_THREAD const Taps* taps) {
    for (int k = 0; k < AXES; ++k) at += (I)taps[k].first * taps[k].stride;
    return ((DEVICE const Stored*)src)[at];
}
#else
template <int LEFT> struct Mix {
    FN Value of(DEVICE const u8* src, I at, IN_THREAD const Taps* taps) {
        const Taps own = taps[LEFT - 1];
        Value sum = (Value)0;
        for (u32 k = 0; k < own.count; ++k) {
            const Value weight = own.weights[k];
            if (weight == (Value)0) continue;
            i64 place = own.first + k;
            place = place < 0 ? 0 : place > own.last ? own.last : place;
            sum += weight * Mix<LEFT - 1>::of(src, at + (I)place * own.stride, taps);
        }
        return sum;
    }
};
template <> struct Mix<0> {
    FN Value of(DEVICE const u8* src, I at, IN_THREAD const Taps* taps) {
        return (Value)load<TYPE>(src, at);
    }
};
FN Stored outside_of(IN_PARAMS Params& p) { return Element<TYPE>::put(p.outside); }
// Of a number that becomes an integer the fraction is cut off, unless it is a rounding: a 2^20th.
FN Value whole(Value x) {
    if (TYPE < I8) return x;
    const Value near = m_round_even(x);
    return m_abs(x - near) <= m_abs(x) * (Value)9.5367431640625e-7f ? near : x;
}
FN Stored mixed(DEVICE const u8* src, I at, IN_THREAD const Taps* taps) {
    return Element<TYPE>::put(whole(Mix<AXES>::of(src, at, taps)));
}
#endif

KERNEL_3(dst, src, table) {
    const Thread t = THREAD;
    const Stored outside = outside_of(p);
    for (I i = first_item<I>(t); i < (I)p.walk.count; i += all_items<I>(t)) {
        I rest = i, to = (I)p.walk.offset[0], from = (I)p.walk.offset[1];
        Taps taps[AXES];
        bool inside = true;
        int scaled = 0;
        UNROLL
        for (int axis = 0; axis < RANK; ++axis) {
            const I size = (I)p.walk.shape[axis], stride = (I)p.walk.stride[1][axis];
            const I next = rest / size;
            const I at = rest - next * size;
            rest = next;
            to += at * (I)p.walk.stride[0][axis];
            if ((SCALED >> axis & 1) != 0) {
                DEVICE const u8* record = table + (p.offset[axis] + (u64)at * p.record[axis]);
                taps[scaled].first = ((DEVICE const i32*)record)[0];
                taps[scaled].count = ((DEVICE const u32*)record)[1];
                taps[scaled].last = (i64)p.last[axis];
                taps[scaled].stride = stride;
                taps[scaled].weights = (DEVICE const Value*)(record + 8);
                inside = inside && taps[scaled].count != 0;
                ++scaled;
            } else {
                from += at * stride;
            }
        }
        Stored value = outside;
        if (inside) value = mixed(src, from, taps);
        ((DEVICE Stored*)dst)[to] = value;
    }
}
