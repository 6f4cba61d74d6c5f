// Matrix products in tiles of TILE_M × TILE_N, a thread having 4 × 4 of it. SLICES parts of a group share the
// depth of a tile among them. DST of i32 with A of another type is the product of 8-bit integers less their zero
// points; then `bias` and `residual` are those of `a` and `b`. Other integers wrap around.

#define DEPTH (16 * SLICES)
#define PER_SLICE (TILE_M * TILE_N / 16)
#define COUNT (PER_SLICE * SLICES)
#define LOADS_A (TILE_M * DEPTH / COUNT)
#define LOADS_B (TILE_N * DEPTH / COUNT)

typedef Index<WIDE>::Type I;
#define BYTES (DST == I32 && A != I32)
#define WHOLE (DST > F64 && !BYTES)
#if !WHOLE
typedef Element<DST>::Value V;
#elif DST == I32 || DST == U32
typedef u32 V;
#else
typedef u64 V;
#endif
typedef Pack<V, 4> P;

KERNEL_5(dst, a, b, bias, residual) {
    const Thread t = THREAD;
    SHARED P a_tile[TILE_PACKS(TILE_M, DEPTH) + TILE_PACKS(TILE_N, DEPTH)];
    IN_SHARED P* b_tile = a_tile + TILE_PACKS(TILE_M, DEPTH);
    const I m0 = (I)(t.group % p.tiles) * TILE_M, n0 = (I)(t.group / p.tiles) * TILE_N;
    const u32 in_slice = t.index % PER_SLICE, slice = t.index / PER_SLICE;
    const u32 row = in_slice / (TILE_N / 4), column = in_slice % (TILE_N / 4);
    const I m = (I)p.m, n = (I)p.n, depth = (I)p.k;
    const I a_row = (I)p.row[1], a_column = (I)p.column[1], b_row = (I)p.row[2], b_column = (I)p.column[2];
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
                    const u32 k = p.b_depth_first != 0 ? e % DEPTH : e / TILE_N;
                    tile_put<TILE_N>(b_tile, k, p.b_depth_first != 0 ? e / DEPTH : e % TILE_N, next_b[i]);
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
                        next_a[i] = (V)load<A>(a, at[1] + y * a_row + k * a_column);
#if BYTES
                        if (p.has_bias != 0) next_a[i] -= load<A>(bias, at[3] + y * (I)p.row[3]);
#endif
                    }
                }
                UNROLL for (u32 i = 0; i < LOADS_B; ++i) {
                    const u32 e = t.index + i * COUNT;
                    const I k = k0 + (p.b_depth_first != 0 ? e % DEPTH : e / TILE_N);
                    const I x = n0 + (p.b_depth_first != 0 ? e / DEPTH : e % TILE_N);
                    next_b[i] = 0;
                    if (x < n && k < depth) {
                        next_b[i] = (V)load<B>(b, at[2] + k * b_row + x * b_column);
#if BYTES
                        if (p.has_residual != 0) next_b[i] -= load<B>(residual, at[4] + x * (I)p.column[4]);
#endif
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
#if !BYTES
#if !WHOLE
                    value *= (V)p.scale;
#endif
                    if (p.has_bias != 0) {
                        value += (V)load<A>(bias, at[3] + y * (I)p.row[3] + x * (I)p.column[3]);
                    }
                    if (p.has_residual != 0) {
                        value += (V)load<A>(residual, at[4] + y * (I)p.row[4] + x * (I)p.column[4]);
                    }
#if !WHOLE
                    value = activate_any(p.act, value, (V)p.first, (V)p.second);
#endif
#endif
                    const Element<DST>::Value result = (Element<DST>::Value)value;
                    store<DST>(dst, at[0] + y * (I)p.row[0] + x * (I)p.column[0], result);
                }
            }
        }
    }
}
