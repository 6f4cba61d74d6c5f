// Elements at places that a grid names. MODE: 0 the nearest, 1 linear, 2 cubic. PADDING: 0 zeros, 1 the edge, 2 the
// mirror image. ALIGN: ends of axes are the middles of elements.

typedef Index<WIDE>::Type I;

enum { TAPS = MODE == 0 ? 1 : MODE == 1 ? 2 : 4 };

// Back and forth between two edges, from outside of them.
FN f32 mirrored(f32 place, f32 low, f32 high) {
    const f32 range = high - low;
    if (range <= 0.0f) return low;
    const f32 far = m_fmod(place < low ? low - place : place - high, range + range);
    const f32 back = far <= range ? far : range + range - far;
    return place < low ? low + back : high - back;
}
FN f32 low_edge() { return ALIGN ? 0.0f : -0.5f; }
FN f32 high_edge(f32 size) { return ALIGN ? size - 1.0f : size - 0.5f; }

// A coordinate in elements, brought inside as the padding has it. One that is no number is far before the first.
FN f32 place_of(f32 x, f32 size) {
    f32 place = ALIGN ? exact_mul(exact_add(x, 1.0f) / 2.0f, size - 1.0f)
                      : exact_add(exact_mul(exact_add(x, 1.0f), size), -1.0f) / 2.0f;
    place = place > -1.0e9f ? (place < 1.0e9f ? place : 1.0e9f) : -1.0e9f;
    if (MODE == 0) place = m_round_even(place);
    const f32 low = low_edge(), high = high_edge(size);
    if (place >= low && place <= high) return place;
    if (PADDING == 1) return place < 0.0f ? 0.0f : place > size - 1.0f ? size - 1.0f : place;
    if (PADDING == 2) return mirrored(place, low, high);
    return place;
}
// The element at a whole number; below 0 where there is none.
FN i64 index_of(f32 place, i64 size) {
    i64 index = (i64)place;
    if (index >= 0 && index < size) return index;
    if (PADDING == 0) return -1;
    if (PADDING == 2) index = (i64)mirrored(place, low_edge(), high_edge((f32)size));
    return index < 0 ? 0 : index >= size ? size - 1 : index;
}
FN f32 far_weight(f32 x) { return ((-0.75f * x + 3.75f) * x - 6.0f) * x + 3.0f; }
FN f32 near_weight(f32 x) { return (1.25f * x - 2.25f) * x * x + 1.0f; }

struct AxisTaps {
    i64 index[TAPS];
    f32 weight[TAPS];
};
FN AxisTaps taps_along(f32 x, i64 size) {
    AxisTaps taps;
    const f32 place = place_of(x, (f32)size);
    const f32 first = MODE == 0 ? place : m_floor(place);
    const f32 part = place - first;
    for (int k = 0; k < TAPS; ++k) {
        taps.index[k] = index_of(first + (f32)(MODE == 2 ? k - 1 : k), size);
        if (MODE == 0) taps.weight[k] = 1.0f;
        else if (MODE == 1) taps.weight[k] = k == 0 ? 1.0f - part : part;
        else if (k == 0) taps.weight[k] = far_weight(part + 1.0f);
        else if (k == 3) taps.weight[k] = far_weight(2.0f - part);
        else taps.weight[k] = near_weight(k == 1 ? part : 1.0f - part);
    }
    return taps;
}

KERNEL_3(dst, src, grid) {
    const Thread t = THREAD;
    for (I item = first_item<I>(t); item < (I)p.count; item += all_items<I>(t)) {
        I place[SPATIAL];
        const I outer = window_place<SPATIAL, I>(p.out_size, item, place);
        const I batch = outer / (I)p.channels, channel = outer - batch * (I)p.channels;
        I point = (I)p.offset[2] + batch * (I)p.stride[2][0];
        UNROLL for (int axis = 0; axis < SPATIAL; ++axis) point += place[axis] * (I)p.stride[2][axis + 1];
        AxisTaps taps[SPATIAL];
        int all = 1;
        UNROLL for (int axis = 0; axis < SPATIAL; ++axis) {
            // The first coordinate is that of the last axis.
            const I at = point + (I)(SPATIAL - 1 - axis) * (I)p.stride[2][SPATIAL + 1];
            taps[axis] = taps_along(load<DTYPE>(grid, at), (i64)p.in_size[axis]);
            all *= TAPS;
        }
        const I start = (I)p.offset[1] + batch * (I)p.stride[1][0] + channel * (I)p.stride[1][1];
        f32 sum = 0.0f;
        for (int tap = 0; tap < all; ++tap) {
            int rest = tap;
            I from = start;
            f32 weight = 1.0f;
            bool inside = true;
            UNROLL for (int axis = SPATIAL - 1; axis >= 0; --axis) {
                const int k = rest % TAPS;
                rest /= TAPS;
                const i64 index = taps[axis].index[k];
                inside = inside && index >= 0 && taps[axis].weight[k] != 0.0f;
                from += (I)index * (I)p.stride[1][axis + 2];
                weight *= taps[axis].weight[k];
            }
            if (inside) sum += weight * load<DTYPE>(src, from);
        }
        store<DTYPE>(dst, window_at<SPATIAL, I>(p.offset[0], p.stride[0], batch, channel, place), sum);
    }
}
