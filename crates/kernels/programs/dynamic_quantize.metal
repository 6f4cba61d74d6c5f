// To 8-bit integers with the scale that suits the data. FROM and TO are element types; TO of i8 is symmetric
// and has no zero point. MODE says who has a row: 0 a thread, 1 a simd group, 2 a group. STAGE: 0 whole rows,
// 1 from parts of rows to how far they reach, 2 from these to integers.

typedef Index<WIDE>::Type I;
typedef Element<TO>::Stored To;

// How far numbers reach below 0 and above it. NaN does not count.
struct Reach {
    f32 below, above;
    FN f32 larger(f32 a, f32 b) { return b > a ? b : a; }
    FN Reach empty() {
        Reach s;
        s.below = 0.0f;
        s.above = 0.0f;
        return s;
    }
    FN Reach join(Reach a, Reach b) {
        a.below = larger(a.below, b.below);
        a.above = larger(a.above, b.above);
        return a;
    }
    FN Reach add(Reach a, f32 x) {
        a.below = larger(a.below, -x);
        a.above = larger(a.above, x);
        return a;
    }
    FN Reach other(Reach a, u32 mask) {
        Reach s;
        s.below = lane_xor(a.below, mask);
        s.above = lane_xor(a.above, mask);
        return s;
    }
};

FN f32 scale_of(Reach s) {
    const f32 scale = TO == I8 ? Reach::larger(s.below, s.above) / 127.0f : (s.above + s.below) / 255.0f;
    return scale == 0.0f ? 1.0f : scale;
}
FN f32 zero_of(Reach s, f32 scale) {
    const f32 zero = m_round_even(s.below / scale);
    return TO == I8 || is_nan(zero) ? 0.0f : zero > 255.0f ? 255.0f : zero;
}
FN To whole(f32 x, f32 scale, f32 zero) {
    const f32 quotient = m_round_even(x / scale);
    return Element<TO>::put((is_nan(quotient) ? 0.0f : quotient) + zero);
}

// Elements `begin .. end` of a row, of which this is worker `own` of `workers`.
FN Reach reach(DEVICE const u8* src, IN_PARAMS Params& p, I start, I begin, I end, I own, I workers) {
    Reach s = Reach::empty();
    I first = begin;
    if (VECTOR > 1) {
        const I vectors = (end - begin) / VECTOR;
        for (I v = own; v < vectors; v += workers) {
            const Values<FROM, VECTOR> x = load_values<FROM, VECTOR, 1>(src, start + begin + v * VECTOR);
            for (int k = 0; k < VECTOR; ++k) s = Reach::add(s, x.e[k]);
        }
        first = begin + vectors * VECTOR;
    }
    for (I i = first + own; i < end; i += workers) {
        I at[2];
        locate<RANK, 2, I>(p.row, i, at);
        s = Reach::add(s, load<FROM>(src, start + at[1]));
    }
    return s;
}

FN void quantize(DEVICE u8* dst, DEVICE const u8* src, IN_PARAMS Params& p, IN_THREAD const I* start, I begin,
                 I end, I own, I workers, f32 scale, f32 zero) {
    I first = begin;
    if (VECTOR > 1) {
        const I vectors = (end - begin) / VECTOR;
        for (I v = own; v < vectors; v += workers) {
            const I i = begin + v * VECTOR;
            const Values<FROM, VECTOR> x = load_values<FROM, VECTOR, 1>(src, start[1] + i);
            Pack<To, VECTOR> out;
            for (int k = 0; k < VECTOR; ++k) out.e[k] = whole(x.e[k], scale, zero);
            *(DEVICE Pack<To, VECTOR>*)((DEVICE To*)dst + start[0] + i) = out;
        }
        first = begin + vectors * VECTOR;
    }
    for (I i = first + own; i < end; i += workers) {
        I at[2];
        locate<RANK, 2, I>(p.row, i, at);
        ((DEVICE To*)dst)[start[0] + at[0]] = whole(load<FROM>(src, start[1] + at[1]), scale, zero);
    }
}

KERNEL_5(dst, scales, zeros, src, parts) {
    const Thread t = THREAD;
    const I chunks = STAGE == 0 ? 1 : (I)p.chunks;
    const I items = (I)p.starts.count * chunks, all = (I)p.size;
#if MODE == 2
    SHARED Reach scratch[32];
    const I one = t.group, step = t.groups, own = t.index, workers = t.count;
#elif MODE == 1
    const I one = (I)t.group * (t.count / 32) + t.simd, step = (I)t.groups * (t.count / 32);
    const I own = t.lane, workers = 32;
#else
    const I one = first_item<I>(t), step = all_items<I>(t), own = 0, workers = 1;
#endif
    // All threads of a simd group or group have the same item, so that they stay together.
    for (I item = one; item < items; item += step) {
        const I row = item / chunks, part = item % chunks;
        I at[4];
        locate<KEPT, 4, I>(p.starts, row, at);
        const I chunk = STAGE == 0 ? all : (I)p.chunk;
        const I begin = part * chunk;
        const I end = all - begin < chunk ? all : begin + chunk;
        Reach s = Reach::empty();
        if (STAGE == 2) {
            for (I k = own; k < chunks; k += workers) {
                s = Reach::join(s, ((DEVICE const Reach*)parts)[row * chunks + k]);
            }
        } else {
            s = reach(src, p, at[1], begin, end, own, workers);
        }
#if MODE == 2
        s = group_merge(t, s, scratch);
#elif MODE == 1
        s = lanes_merge(s);
#endif
        if (STAGE == 1) {
            if (own == 0) ((DEVICE Reach*)parts)[item] = s;
        } else {
            const f32 scale = scale_of(s);
            const f32 zero = zero_of(s, scale);
            if (own == 0 && part == 0) {
                ((DEVICE f32*)scales)[at[2]] = scale;
                if (TO == U8) zeros[at[3]] = (u8)zero;
            }
            quantize(dst, src, p, at, begin, end, own, workers, scale, zero);
        }
    }
}
