// Convolutions as products of weights with windows that are gathered on the way: rows are the outputs of
// a group of channels, columns the places of the window, and the depth is channels and taps. DST of i32 is
// the product of 8-bit integers less their zero points, which are in `bias` (input) and `residual`.

#define DEPTH (16 * SLICES)
#define PER_SLICE (TILE_M * TILE_N / 16)
#define COUNT (PER_SLICE * SLICES)
#define LOADS_A (TILE_M * DEPTH / COUNT)
#define LOADS_B (TILE_N * DEPTH / COUNT)

typedef Index<WIDE>::Type I;
typedef Element<DST>::Value V;
typedef Pack<V, 4> P;
typedef WindowStep<SPATIAL, I> Step;

KERNEL_5(dst, src, weight, bias, residual) {
    const Thread t = THREAD;
    SHARED P a_tile[TILE_PACKS(TILE_M, DEPTH) + TILE_PACKS(TILE_N, DEPTH)];
    IN_SHARED P* b_tile = a_tile + TILE_PACKS(TILE_M, DEPTH);
    SHARED Step steps[2 * DEPTH];
    const I m0 = (I)(t.group % p.tiles) * TILE_M, n0 = (I)(t.group / p.tiles) * TILE_N;
    const u32 in_slice = t.index % PER_SLICE, slice = t.index / PER_SLICE;
    const u32 row = in_slice / (TILE_N / 4), column = in_slice % (TILE_N / 4);
    const I outputs = (I)p.outputs, positions = (I)p.positions, depth = (I)p.depth;
    // The place of the window that this thread gathers for.
    const I own = n0 + t.index % TILE_N;
    const bool gathers = own < positions;
    I from[SPATIAL];
    const I own_batch = window_place<SPATIAL, I>(p.out_size, gathers ? own : 0, from);
    I own_src = (I)p.offset[1] + own_batch * (I)p.src_stride[0];
    UNROLL for (int axis = 0; axis < SPATIAL; ++axis) {
        from[axis] = from[axis] * (I)p.step[axis] - (I)p.pad[axis];
        own_src += from[axis] * (I)p.src_stride[axis + 2];
    }
#if DST == I32
    const V src_zero = p.has_bias != 0 ? load<SRC>(bias, (I)p.offset[3]) : 0;
#endif
    for (I group = t.group_y; group < (I)p.groups; group += t.groups_y) {
        const I group_src = own_src + group * (I)p.channels * (I)p.src_stride[1];
        const I group_weight = (I)p.offset[2] + group * outputs * (I)p.weight_stride[0];
        V acc[16];
        UNROLL for (int i = 0; i < 16; ++i) acc[i] = 0;
        V next_a[LOADS_A], next_b[LOADS_B];
        for (u32 k = t.index; k < 2 * DEPTH; k += COUNT) steps[k] = window_step<SPATIAL, I>(p, k);
        group_barrier();
        u32 phase = 0;
        for (I k0 = 0; k0 < depth + DEPTH; k0 += DEPTH) {
            if (k0 > 0) {
                UNROLL for (u32 i = 0; i < LOADS_A; ++i) {
                    const u32 e = t.index + i * COUNT;
                    tile_put<TILE_M>(a_tile, e % DEPTH, e / DEPTH, next_a[i]);
                }
                UNROLL for (u32 i = 0; i < LOADS_B; ++i) {
                    const u32 e = t.index + i * COUNT;
                    tile_put<TILE_N>(b_tile, e / TILE_N, e % TILE_N, next_b[i]);
                }
                group_barrier();
            }
            if (k0 < depth) {
                UNROLL for (u32 i = 0; i < LOADS_A; ++i) {
                    const u32 e = t.index + i * COUNT;
                    next_a[i] = 0;
                    const I m = m0 + e / DEPTH;
                    if (m < outputs && k0 + e % DEPTH < depth) {
                        next_a[i] = load<WEIGHT>(weight, group_weight + m * (I)p.weight_stride[0] + steps[phase + e % DEPTH].weight);
#if DST == I32
                        if (p.has_residual != 0) {
                            next_a[i] -= load<WEIGHT>(residual, (I)p.offset[4] + (group * outputs + m) * (I)p.residual_stride[0]);
                        }
#endif
                    }
                }
                UNROLL for (u32 i = 0; i < LOADS_B; ++i) {
                    const u32 e = t.index + i * COUNT;
                    next_b[i] = 0;
                    const Step step = steps[phase + e / TILE_N];
                    bool inside = gathers && k0 + e / TILE_N < depth;
                    UNROLL for (int axis = 0; axis < SPATIAL; ++axis) {
                        inside = inside && from[axis] + step.tap[axis] < (I)p.in_size[axis];
                    }
                    if (inside) {
                        next_b[i] = load<SRC>(src, group_src + step.src);
#if DST == I32
                        next_b[i] -= src_zero;
#endif
                    }
                }
            }
            if (k0 > 0) {
                // What the steps of the tile before were needed for is done.
                for (u32 k = t.index; k < DEPTH; k += COUNT) {
                    steps[DEPTH - phase + k] = window_step<SPATIAL, I>(p, k0 + DEPTH + k);
                }
                tile_multiply<TILE_M, TILE_N, 16>(a_tile, b_tile, slice * 16, row, column, acc);
                group_barrier();
            }
            phase = DEPTH - phase;
        }
        tile_join<SLICES, PER_SLICE>(t.index, (IN_SHARED V*)a_tile, acc);
        if (slice == 0) {
            // Once for all 16, so that the activations are not written out so many times.
            V results[16];
            UNROLL for (int i = 0; i < 16; ++i) results[i] = acc[i];
            KEEP_LOOP for (u32 i = 0; i < 16; ++i) {
                const I m = m0 + row * 4 + i / 4, n = n0 + column * 4 + i % 4;
                if (m < outputs && n < positions) {
                    I place[SPATIAL];
                    const I batch = window_place<SPATIAL, I>(p.out_size, n, place);
                    const I channel = group * outputs + m;
                    V value = results[i];
#if DST != I32
                    value *= (V)p.scale;
                    if (p.has_bias != 0) {
                        value += load<DST>(bias, (I)p.offset[3] + channel * (I)p.bias_stride);
                    }
                    if (p.has_residual != 0) {
                        value += load<DST>(residual, window_at<SPATIAL, I>(p.offset[4], p.residual_stride, batch, channel, place));
                    }
                    value = activate_any(p.act, value, (V)p.first, (V)p.second);
#endif
                    store<DST>(dst, window_at<SPATIAL, I>(p.offset[0], p.dst_stride, batch, channel, place), value);
                }
            }
        }
        group_barrier();
    }
}
