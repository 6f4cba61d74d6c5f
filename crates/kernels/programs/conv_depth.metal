// Small convolutions as products of weights with windows that are gathered on the way, as in `conv`: rows are
// the outputs of a group of channels, columns the places of the window, and the depth is channels and taps. The
// depth is shared by simd groups, as in `matmul_depth`. DENSE says that weights lie along the depth.

#define SLICES (THREADS / 32)
#define TILE_M (8 * ROWS)
#define TILE_N (4 * COLUMNS)
#define LOADS_A ROWS
#define LOADS_B (TILE_N * STAGE_DEPTH / 32)
// Results that a thread stores, and how far apart.
#define STORES ((TILE_M * TILE_N + THREADS - 1) / THREADS)
#define ROWS_APART (THREADS / TILE_N)
// Neighbouring lanes gather for neighbouring places; so many elements along the depth at once.
#define ABREAST (32 / TILE_N)

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Stored S;
typedef Element<DTYPE>::Value V;
typedef Pack<S, 4> Q;
typedef Pack<V, 4> P;
typedef WindowStep<SPATIAL, I> Step;

KERNEL_5(dst, src, weight, bias, residual) {
    const Thread t = THREAD;
    SHARED P stages[SLICES * STAGE_ROOM(TILE_M, TILE_N)];
    SHARED Step all_steps[SLICES * STAGE_DEPTH];
    const I m0 = (I)t.group * TILE_M, n0 = (I)t.group_z * TILE_N;
    const I outputs = (I)p.outputs, positions = (I)p.positions, depth = (I)p.depth;
    const u32 row = t.lane / 4, column = t.lane % 4;
    const u32 place = t.lane % TILE_N, abreast = t.lane / TILE_N;
    IN_SHARED Step* steps = all_steps + t.simd * STAGE_DEPTH;
    IN_SHARED P* stage = stages + t.simd * STAGE_PACKS(TILE_M, TILE_N);
    IN_SHARED P* stage_b = stage + TILE_M * STAGE_PITCH;
    // The place of the window that this lane gathers for.
    const bool gathers = n0 + place < positions;
    I from[SPATIAL];
    const I own_batch = window_place<SPATIAL, I>(p.out_size, gathers ? n0 + place : 0, from);
    I own_src = (I)p.offset[1] + own_batch * (I)p.src_stride[0];
    UNROLL for (int axis = 0; axis < SPATIAL; ++axis) {
        from[axis] = from[axis] * (I)p.step[axis] - (I)p.pad[axis];
        own_src += from[axis] * (I)p.src_stride[axis + 2];
    }
    // Where the results lie that this thread stores: at one place, for several channels.
    const u32 first = t.index / TILE_N;
    const I n = n0 + t.index % TILE_N;
    const bool stores = n < positions && first < TILE_M;
    I to[SPATIAL];
    const I to_batch = window_place<SPATIAL, I>(p.out_size, stores ? n : 0, to);
    const I dst_at = window_at<SPATIAL, I>(p.offset[0], p.dst_stride, to_batch, 0, to);
    const I residual_at = window_at<SPATIAL, I>(p.offset[4], p.residual_stride, to_batch, 0, to);
    for (I group = t.group_y; group < (I)p.groups; group += t.groups_y) {
        const I group_src = own_src + group * (I)p.channels * (I)p.src_stride[1];
        const I group_weight = (I)p.offset[2] + group * outputs * (I)p.weight_stride[0];
        V acc[ROWS * COLUMNS];
        UNROLL for (u32 i = 0; i < ROWS * COLUMNS; ++i) acc[i] = 0;
        Q next_a[LOADS_A];
        S next_b[LOADS_B];
        // What is added to the results is asked for before they are known.
        V extra[STORES];
        UNROLL for (u32 i = 0; i < STORES; ++i) {
            const I m = m0 + first + i * ROWS_APART;
            extra[i] = 0;
            if (stores && m < outputs) {
                const I channel = group * outputs + m;
                if (p.has_bias != 0) extra[i] += load<DTYPE>(bias, (I)p.offset[3] + channel * (I)p.bias_stride);
                if (p.has_residual != 0) extra[i] += load<DTYPE>(residual, residual_at + channel * (I)p.residual_stride[1]);
            }
        }
        // One round more than there is to multiply: what a round fetches the next one puts and multiplies.
        for (I k0 = t.simd * STAGE_DEPTH; k0 < depth + SLICES * STAGE_DEPTH; k0 += SLICES * STAGE_DEPTH) {
            const bool multiplies = k0 >= SLICES * STAGE_DEPTH;
            simd_group_barrier();
            if (multiplies) {
                UNROLL for (u32 i = 0; i < LOADS_A; ++i) {
                    P values;
                    UNROLL for (u32 e = 0; e < 4; ++e) values.e[e] = Element<DTYPE>::get(next_a[i].e[e]);
                    stage[(row + 8 * i) * STAGE_PITCH + column] = values;
                }
                UNROLL for (u32 i = 0; i < LOADS_B; ++i) {
                    ((IN_SHARED V*)stage_b)[place * 4 * STAGE_PITCH + abreast + i * ABREAST] = Element<DTYPE>::get(next_b[i]);
                }
            }
            const bool fetches = k0 < depth;
            if (fetches && t.lane < STAGE_DEPTH) steps[t.lane] = window_step<SPATIAL, I>(p, k0 + t.lane);
            simd_group_barrier();
            if (fetches) {
                UNROLL for (u32 i = 0; i < LOADS_A; ++i) {
                    const I m = m0 + row + 8 * i;
                    const I at = group_weight + (m < outputs ? m : outputs - 1) * (I)p.weight_stride[0];
                    UNROLL for (u32 e = 0; e < 4; ++e) next_a[i].e[e] = 0;
                    if (DENSE) {
                        const I k = k0 + column * 4;
                        if (k < depth) next_a[i] = *(DEVICE const Q*)((DEVICE const S*)weight + (at + k));
                    } else {
                        UNROLL for (u32 e = 0; e < 4; ++e) {
                            if (k0 + column * 4 + e < depth) {
                                next_a[i].e[e] = ((DEVICE const S*)weight)[at + steps[column * 4 + e].weight];
                            }
                        }
                    }
                }
                UNROLL for (u32 i = 0; i < LOADS_B; ++i) {
                    const u32 k = abreast + i * ABREAST;
                    const Step step = steps[k];
                    bool inside = gathers && k0 + k < depth;
                    UNROLL for (int axis = 0; axis < SPATIAL; ++axis) {
                        inside = inside && from[axis] + step.tap[axis] < (I)p.in_size[axis];
                    }
                    next_b[i] = 0;
                    if (inside) next_b[i] = ((DEVICE const S*)src)[group_src + step.src];
                }
            }
            if (multiplies) stage_multiply<ROWS, COLUMNS>(stage, stage_b, t.lane, acc);
        }
        IN_SHARED V* sums = (IN_SHARED V*)stages;
        stage_gather<ROWS, COLUMNS>(sums, t, acc);
        stage_finish<STORES, SLICES, TILE_M * TILE_N, THREADS>(sums, t.index, p, extra);
        UNROLL for (u32 i = 0; i < STORES; ++i) {
            const I m = m0 + first + i * ROWS_APART;
            if (stores && m < outputs) store<DTYPE>(dst, dst_at + (group * outputs + m) * (I)p.dst_stride[1], extra[i]);
        }
        group_barrier();
    }
}
