// Matrix products with weights of few bits, in tiles of TILE_M × TILE_N, a thread having 4 × 4 of it, as `matmul`
// has them. Weights become numbers on their way into group memory.

#define DEPTH (16 * SLICES)
#define PER_SLICE (TILE_M * TILE_N / 16)
#define COUNT (PER_SLICE * SLICES)
#define LOADS_A (TILE_M * DEPTH / COUNT)
#define LOADS_B (TILE_N * DEPTH / COUNT)

typedef Index<WIDE>::Type I;
typedef f32 V;
typedef Pack<V, 4> P;

KERNEL_7(dst, a, weights, scales, zeros, bias, residual) {
    const Thread t = THREAD;
    SHARED P a_tile[TILE_PACKS(TILE_M, DEPTH) + TILE_PACKS(TILE_N, DEPTH)];
    IN_SHARED P* b_tile = a_tile + TILE_PACKS(TILE_M, DEPTH);
    const I m0 = (I)(t.group % p.tiles) * TILE_M, n0 = (I)(t.group / p.tiles) * TILE_N;
    const u32 in_slice = t.index % PER_SLICE, slice = t.index / PER_SLICE;
    const u32 row = in_slice / (TILE_N / 4), column = in_slice % (TILE_N / 4);
    const I m = (I)p.m, n = (I)p.n, depth = (I)p.k;
    const I a_row = (I)p.row[1], a_column = (I)p.column[1];
    for (I batch = t.group_y; batch < (I)p.batch.count; batch += t.groups_y) {
        I at[5];
        locate<RANK, 5, I>(p.batch, batch, at);
        V acc[16];
        UNROLL for (int i = 0; i < 16; ++i) acc[i] = 0;
        V next_a[LOADS_A], next_b[LOADS_B];
        for (I k0 = 0; k0 < depth + DEPTH; k0 += DEPTH) {
            // The tile that was fetched while the one before it was multiplied.
            if (k0 > 0) {
                UNROLL for (u32 i = 0; i < LOADS_A; ++i) {
                    const u32 e = t.index + i * COUNT;
                    const u32 k = p.a_depth_first != 0 ? e % DEPTH : e / TILE_M;
                    tile_put<TILE_M>(a_tile, k, p.a_depth_first != 0 ? e / DEPTH : e % TILE_M, next_a[i]);
                }
                UNROLL for (u32 i = 0; i < LOADS_B; ++i) {
                    const u32 e = t.index + i * COUNT;
                    tile_put<TILE_N>(b_tile, e % DEPTH, e / DEPTH, next_b[i]);
                }
                group_barrier();
            }
            if (k0 < depth) {
                UNROLL for (u32 i = 0; i < LOADS_A; ++i) {
                    const u32 e = t.index + i * COUNT;
                    const I k = k0 + (p.a_depth_first != 0 ? e % DEPTH : e / TILE_M);
                    const I y = m0 + (p.a_depth_first != 0 ? e / DEPTH : e % TILE_M);
                    next_a[i] = 0;
                    if (y < m && k < depth) {
                        next_a[i] = load<DTYPE>(a, at[1] + y * a_row + k * a_column);
                    }
                }
                UNROLL for (u32 i = 0; i < LOADS_B; ++i) {
                    const u32 e = t.index + i * COUNT;
                    const I k = k0 + e % DEPTH, x = n0 + e / DEPTH;
                    next_b[i] = 0;
                    if (x < n && k < depth) {
                        const I block = k >> p.shift;
                        const u32 byte = weights[block_byte<BITS>(p, x, k)];
                        const f32 zero = block_zero<DTYPE, BITS, ZERO>(zeros, p, x, block);
                        next_b[i] = ((f32)few_bits<BITS>(byte, (u32)(k % (8 / BITS))) - zero)
                            * block_scale<DTYPE>(scales, p, x, block);
                    }
                }
            }
            if (k0 > 0) {
                tile_multiply<TILE_M, TILE_N, 16>(a_tile, b_tile, slice * 16, row, column, acc);
                group_barrier();
            }
        }
        tile_join<SLICES, PER_SLICE>(t.index, (IN_SHARED V*)a_tile, acc);
        if (slice == 0) {
            // Once for all 16, so that the activations are not written out so many times.
            V results[16];
            UNROLL for (int i = 0; i < 16; ++i) results[i] = acc[i];
            KEEP_LOOP for (u32 i = 0; i < 16; ++i) {
                const I y = m0 + row * 4 + i / 4, x = n0 + column * 4 + i % 4;
                if (y < m && x < n) {
                    V value = results[i];
                    value *= (V)p.scale;
                    if (p.has_bias != 0) {
                        value += (V)load<DTYPE>(bias, at[3] + y * (I)p.row[3] + x * (I)p.column[3]);
                    }
                    if (p.has_residual != 0) {
                        value += (V)load<DTYPE>(residual, at[4] + y * (I)p.row[4] + x * (I)p.column[4]);
                    }
                    value = activate_any(p.act, value, (V)p.first, (V)p.second);
                    store<DTYPE>(dst, at[0] + y * (I)p.row[0] + x * (I)p.column[0], value);
                }
            }
        }
    }
}
