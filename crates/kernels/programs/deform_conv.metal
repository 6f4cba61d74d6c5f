// Convolutions over two axes whose taps are moved by data, as products of weights with windows that are sampled on the
// way: rows are the outputs of a group of channels, columns the places of the window, and the depth is channels and
// taps. What lies between elements is found linearly, and outside are zeros. BIAS, MASK: whether these are given.

#define DEPTH (16 * SLICES)
#define PER_SLICE (TILE_M * TILE_N / 16)
#define COUNT (PER_SLICE * SLICES)

typedef Index<WIDE>::Type I;
typedef Pack<f32, 4> P;

// The two elements around a place on an axis, and what they count: nothing outside.
struct AxisPair {
    I index[2];
    f32 share[2];
};
FN AxisPair pair_along(f32 place, i64 size) {
    AxisPair pair;
    // What is no number is outside too, and is not converted.
    const bool near = place > -1.0f && place < (f32)size;
    const f32 low = near ? m_floor(place) : 0.0f;
    const f32 part = near ? place - low : 0.0f;
    UNROLL for (int k = 0; k < 2; ++k) {
        const i64 index = (i64)low + k;
        const bool inside = near && index >= 0 && index < size;
        pair.index[k] = inside ? (I)index : 0;
        pair.share[k] = !inside ? 0.0f : k == 0 ? 1.0f - part : part;
    }
    return pair;
}

KERNEL_6(dst, src, weight, moves, bias, mask) {
    const Thread t = THREAD;
    SHARED P a_tile[TILE_PACKS(TILE_M, DEPTH) + TILE_PACKS(TILE_N, DEPTH)];
    IN_SHARED P* b_tile = a_tile + TILE_PACKS(TILE_M, DEPTH);
    const I m0 = (I)(t.group % p.tiles) * TILE_M, n0 = (I)(t.group / p.tiles) * TILE_N;
    const u32 in_slice = t.index % PER_SLICE, slice = t.index / PER_SLICE;
    const u32 row = in_slice / (TILE_N / 4), column = in_slice % (TILE_N / 4);
    const I outputs = (I)p.outputs, positions = (I)p.positions, depth = (I)p.depth;
    const I taps = (I)p.taps[0] * (I)p.taps[1];
    // The place of the window that this thread samples for.
    const I own = n0 + t.index % TILE_N;
    const bool samples = own < positions;
    I from[2];
    const I own_batch = window_place<2, I>(p.out_size, samples ? own : 0, from);
    for (I group = t.group_y; group < (I)p.groups; group += t.groups_y) {
        f32 acc[16];
        UNROLL for (int i = 0; i < 16; ++i) acc[i] = 0.0f;
        for (I k0 = 0; k0 < depth; k0 += DEPTH) {
            for (u32 e = t.index; e < TILE_M * DEPTH; e += COUNT) {
                const I m = m0 + e / DEPTH, k = k0 + e % DEPTH;
                f32 value = 0.0f;
                if (m < outputs && k < depth) {
                    const I channel = k / taps, tap = k - channel * taps;
                    const I y = tap / (I)p.taps[1], x = tap - y * (I)p.taps[1];
                    value = load<DTYPE>(weight, (I)p.offset[2] + (group * outputs + m) * (I)p.stride[2][0] + channel * (I)p.stride[2][1] +
                                                    y * (I)p.stride[2][2] + x * (I)p.stride[2][3]);
                }
                tile_put<TILE_M>(a_tile, e % DEPTH, e / DEPTH, value);
            }
            for (u32 e = t.index; e < TILE_N * DEPTH; e += COUNT) {
                const I k = k0 + e / TILE_N;
                f32 value = 0.0f;
                if (samples && k < depth) {
                    const I in_group = k / taps, tap = k - in_group * taps;
                    const I channel = group * (I)p.channels + in_group;
                    const I moved = channel / (I)p.together * taps + tap;
                    I at[2];
                    at[0] = tap / (I)p.taps[1];
                    at[1] = tap - at[0] * (I)p.taps[1];
                    AxisPair pairs[2];
                    UNROLL for (int axis = 0; axis < 2; ++axis) {
                        const i64 here = (i64)from[axis] * (i64)p.step[axis] + (i64)at[axis] * (i64)p.dilation[axis] - (i64)p.pad[axis];
                        const f32 by = load<DTYPE>(moves, window_at<2, I>(p.offset[3], p.stride[3], own_batch, 2 * moved + axis, from));
                        pairs[axis] = pair_along((f32)here + by, (i64)p.in_size[axis]);
                    }
                    const I start = (I)p.offset[1] + own_batch * (I)p.stride[1][0] + channel * (I)p.stride[1][1];
                    UNROLL for (int i = 0; i < 4; ++i) {
                        // What counts nothing is 0, even where it is not finite.
                        const f32 share = pairs[0].share[i / 2] * pairs[1].share[i % 2];
                        if (share != 0.0f) {
                            value += share * load<DTYPE>(src, start + pairs[0].index[i / 2] * (I)p.stride[1][2] + pairs[1].index[i % 2] * (I)p.stride[1][3]);
                        }
                    }
                    if (MASK) value *= load<DTYPE>(mask, window_at<2, I>(p.offset[5], p.stride[5], own_batch, moved, from));
                }
                tile_put<TILE_N>(b_tile, e / TILE_N, e % TILE_N, value);
            }
            group_barrier();
            tile_multiply<TILE_M, TILE_N, 16>(a_tile, b_tile, slice * 16, row, column, acc);
            group_barrier();
        }
        tile_join<SLICES, PER_SLICE>(t.index, (IN_SHARED f32*)a_tile, acc);
        if (slice == 0) {
            UNROLL for (u32 i = 0; i < 16; ++i) {
                const I m = m0 + row * 4 + i / 4, n = n0 + column * 4 + i % 4;
                if (m < outputs && n < positions) {
                    I place[2];
                    const I batch = window_place<2, I>(p.out_size, n, place);
                    const I output = group * outputs + m;
                    f32 value = acc[i];
                    if (BIAS) value += load<DTYPE>(bias, (I)p.offset[4] + output * (I)p.stride[4][1]);
                    store<DTYPE>(dst, window_at<2, I>(p.offset[0], p.stride[0], batch, output, place), value);
                }
            }
        }
    }
}
