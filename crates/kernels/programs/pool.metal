// Pooling, with LANES threads for each output: one, or a whole simd group where windows are large.

#define KIND_MAX 0
#define KIND_AVERAGE 1

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Value V;

// Whether a later element counts instead. NaN is the largest number.
template <typename T> FN bool beats(T x, T best) { return best == best && (x != x || x > best); }

// Where the element `found` of a plane is in the whole input, with planes in row-major order or by columns.
FN I whole_place(IN_PARAMS Params& p, I found, bool by_columns, I plane) {
    I at[SPATIAL];
    I size = 1, index = 0, rest = found;
    UNROLL for (int axis = SPATIAL - 1; axis >= 0; --axis) {
        const I next = rest / (I)p.in_size[axis];
        at[axis] = rest - next * (I)p.in_size[axis];
        rest = next;
    }
    UNROLL for (int axis = 0; axis < SPATIAL; ++axis) {
        index += at[axis] * size;
        size *= (I)p.in_size[axis];
    }
    return plane * size + (by_columns ? index : found);
}

KERNEL_3(dst, indices, src) {
    const Thread t = THREAD;
    I taps = 1;
    UNROLL for (int axis = 0; axis < SPATIAL; ++axis) taps *= (I)p.taps[axis];
    for (I item = first_item<I>(t) / LANES; item < (I)p.count; item += all_items<I>(t) / LANES) {
        I place[SPATIAL];
        const I outer = window_place<SPATIAL, I>(p.out_size, item, place);
        const I batch = outer / (I)p.channels, channel = outer - batch * (I)p.channels;
        const I src_at = (I)p.offset[2] + batch * (I)p.stride[2][0] + channel * (I)p.stride[2][1];
        V best = 0;
        I found = 0, seen = 0, counted = 0;
        for (I tap = t.lane % LANES; tap < taps; tap += LANES) {
            I rest = tap, from = src_at, index = 0, scale = 1;
            bool inside = true, within = true;
            UNROLL for (int axis = SPATIAL - 1; axis >= 0; --axis) {
                const I next = rest / (I)p.taps[axis];
                // Counted from the start of the padding.
                const I far = place[axis] * (I)p.step[axis] + (rest - next * (I)p.taps[axis]) * (I)p.dilation[axis];
                const I at = far - (I)p.before[axis];
                rest = next;
                within = within && far < (I)p.in_size[axis] + (I)p.before[axis] + (I)p.after[axis];
                inside = inside && at < (I)p.in_size[axis];
                from += at * (I)p.stride[2][axis + 2];
                index += at * scale;
                scale *= (I)p.in_size[axis];
            }
            counted += within ? 1 : 0;
            if (inside) {
                const V x = load<DTYPE>(src, from);
#if KIND == KIND_MAX
                if (seen == 0 || beats(x, best)) {
                    best = x;
                    found = index;
                }
#else
                best += x;
#endif
                ++seen;
            }
        }
#if LANES > 1
        UNROLL for (u32 mask = LANES / 2; mask > 0; mask >>= 1) {
            const V other = lane_xor(best, mask);
            const I other_seen = lane_xor(seen, mask);
#if KIND == KIND_MAX
            const I other_found = lane_xor(found, mask);
            // Of equal elements the first counts, whichever lane has it.
            const bool first = !beats(best, other) && other_found < found;
            if (other_seen > 0 && (seen == 0 || beats(other, best) || first)) {
                best = other;
                found = other_found;
            }
#else
            best += other;
            counted += lane_xor(counted, mask);
#endif
            seen += other_seen;
        }
#endif
#if KIND == KIND_AVERAGE
        best = best / (V)(p.with_padding != 0 ? counted : seen);
#endif
        if (t.lane % LANES != 0) continue;
        store<DTYPE>(dst, window_at<SPATIAL, I>(p.offset[0], p.stride[0], batch, channel, place), best);
        if (p.has_indices != 0) {
            if (p.order != 0) found = whole_place(p, found, p.order == 2, outer);
            store<I64>(indices, window_at<SPATIAL, I>(p.offset[1], p.stride[1], batch, channel, place), (i64)found);
        }
    }
}
