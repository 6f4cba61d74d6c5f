// Which elements of the input make an element of the output, along each axis that changes.
//
// A record for each place of the output: the first element, how many, and (unless the nearest is taken)
// their weights. Elements may lie outside the input, where the edge stands for them; a count of 0 means
// that the place shows nothing of the input. DOUBLE is 1 for weights of f64.

#if HAS_F64
typedef f64 Real;
FN Real real(u64 bits) { return f64_of(bits); }
#else
// The high half of the bits of an f64 has all of the exponent and most of what an f32 keeps.
typedef f32 Real;
FN Real real(u64 bits) {
    const u32 exponent = (u32)(bits >> 52) & 0x7ffu;
    const u32 sign = (u32)(bits >> 63) << 31;
    if (exponent < 897) return f32_of(sign);
    return f32_of(sign | (exponent - 896) << 23 | ((u32)(bits >> 29) & 0x7fffffu));
}
#endif
template <int D> struct Weights { typedef f32 Type; };
#if HAS_F64
template <> struct Weights<1> { typedef f64 Type; };
#endif

FN Real half_pixel(Real x, Real scale) { return (x + (Real)0.5f) / scale - (Real)0.5f; }

// The coordinate in the input. Sums and products are rounded one by one, as on the CPU.
FN Real coordinate(IN_PARAMS Params& p, u32 axis, u64 place) {
    const Real x = (Real)place, from = (Real)p.from[axis], to = (Real)p.to[axis], scale = real(p.scale[axis]);
    const Real one = (Real)1, half_one = (Real)0.5f;
    if (p.coordinates == 0) return half_pixel(x, scale);
    if (p.coordinates == 1) {
        const Real adjustment = to / exact_mul(scale, from);
        return exact_add(exact_mul(from / (Real)2, one - adjustment), half_pixel(x, scale));
    }
    if (p.coordinates == 2) return p.to[axis] > 1 ? half_pixel(x, scale) : (Real)0;
    if (p.coordinates == 3) return p.to[axis] > 1 ? exact_mul(x, from - one) / (to - one) : (Real)0;
    if (p.coordinates == 4) return x / scale;
    if (p.coordinates == 6) {
        const Real last = exact_add(exact_mul(from, scale), -one);
        return last > (Real)0 ? exact_mul(x, from - one) / last : (Real)0;
    }
    const Real start = (Real)p.start[axis], end = (Real)p.end[axis];
    if (p.to[axis] <= 1) return exact_mul(exact_mul(half_one, start + end), from - one);
    const Real moved = exact_mul(exact_mul(x, end - start), from - one) / (to - one);
    return exact_add(exact_mul(start, from - one), moved);
}

FN Real nearest(u32 mode, Real at) {
    const Real down = m_floor(at), up = m_ceil(at), half_one = (Real)0.5f;
    if (mode == 0) return at - down <= half_one ? down : up;
    if (mode == 1) return at - down < half_one ? down : up;
    return mode == 2 ? down : up;
}

// The weight of element `k`, which lies near or far; `a` sets how far a cubic one swings below zero.
FN Real weight_of(IN_PARAMS Params& p, u32 axis, i64 k, Real at, Real narrow) {
    if (p.exclude_outside != 0 && (k < 0 || k >= (i64)p.from[axis])) return (Real)0;
    const Real x = m_abs((Real)k - at) * narrow;
    if (p.mode == 4) return x < (Real)1 ? (Real)1 - x : (Real)0;
    const Real a = (Real)p.cubic;
    if (x <= (Real)1) return ((a + (Real)2) * x - (a + (Real)3)) * x * x + (Real)1;
    if (x < (Real)2) return ((a * x - (Real)5 * a) * x + (Real)8 * a) * x - (Real)4 * a;
    return (Real)0;
}

FN void put_record(DEVICE u8* record, i64 first, u32 count) {
    ((DEVICE i32*)record)[0] = (i32)first;
    ((DEVICE u32*)record)[1] = count;
}

KERNEL_1(table) {
    typedef Weights<DOUBLE>::Type Weight;
    const Thread t = THREAD;
    for (u64 item = first_item<u64>(t); item < p.count; item += all_items<u64>(t)) {
        u32 axis = 0;
        u64 place = item;
        while (place >= p.to[axis]) {
            place -= p.to[axis];
            ++axis;
        }
        DEVICE u8* record = table + (p.offset[axis] + place * p.record[axis]);
        const Real at = coordinate(p, axis, place), last = (Real)(p.from[axis] - 1);
        if (p.coordinates == 5 && !(at >= (Real)0 && at <= last)) {
            put_record(record, 0, 0);
            continue;
        }
        if (p.mode < 4) {
            put_record(record, (i64)m_min(m_max(nearest(p.mode, at), (Real)0), last), 1);
            continue;
        }
        // When shrinking, the filter is as wide as in the output.
        const Real scale = real(p.scale[axis]);
        const Real narrow = p.antialias != 0 && scale < (Real)1 ? scale : (Real)1;
        const Real reach = (p.mode == 4 ? (Real)1 : (Real)2) / narrow;
        DEVICE Weight* weights = (DEVICE Weight*)(record + 8);
        const i64 begin = (i64)m_floor(at - reach), end = (i64)m_ceil(at + reach);
        i64 first = begin;
        u32 count = 0;
        Real sum = (Real)0;
        for (i64 k = begin; k <= end; ++k) {
            const Real weight = weight_of(p, axis, k, at, narrow);
            if (count == 0 && weight == (Real)0) continue;
            if (count == 0) first = k;
            if (count == p.taps[axis]) break;
            weights[count++] = (Weight)weight;
            sum += weight;
        }
        if (sum == (Real)0) {
            // Far outside there is only the edge.
            first = (i64)m_min(m_max(at, (Real)0), last);
            weights[0] = (Weight)1;
            put_record(record, first, 1);
            continue;
        }
        if (p.antialias != 0 || p.exclude_outside != 0) {
            for (u32 k = 0; k < count; ++k) {
                weights[k] = (Weight)(weight_of(p, axis, first + k, at, narrow) / sum);
            }
        }
        put_record(record, first, count);
    }
}
