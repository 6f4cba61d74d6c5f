// Matrix products in tiles of TILE × TILE, a thread having 4 × 4 of it. SLICES parts of a group share the
// depth of a tile among them. DST of i32 is the product of 8-bit integers less their zero points; then
// `bias` and `residual` are those of `a` and `b`.

#define DEPTH (16 * SLICES)
#define PER_SLICE (TILE * TILE / 16)
#define LOADS (TILE * DEPTH / (PER_SLICE * SLICES))

typedef Index<WIDE>::Type I;
typedef Element<DST>::Value V;
typedef Pack<V, 4> P;

KERNEL_5(dst, a, b, bias, residual) {
    const Thread t = THREAD;
    SHARED P a_tile[TILE_PACKS(TILE, DEPTH)];
    SHARED P b_tile[TILE_PACKS(TILE, DEPTH)];
    SHARED V scratch[SLICES > 1 ? 16 * (SLICES - 1) * PER_SLICE : 1];
    const I m0 = (I)(t.group % p.tiles) * TILE, n0 = (I)(t.group / p.tiles) * TILE;
    const u32 in_slice = t.index % PER_SLICE, slice = t.index / PER_SLICE;
    const u32 row = in_slice / (TILE / 4), column = in_slice % (TILE / 4);
    const I m = (I)p.m, n = (I)p.n, depth = (I)p.k;
    const I a_row = (I)p.row[1], a_column = (I)p.column[1], b_row = (I)p.row[2], b_column = (I)p.column[2];
    for (I batch = t.group_y; batch < (I)p.batch.count; batch += t.groups_y) {
        I at[5];
        locate<RANK, 5, I>(p.batch, batch, at);
        V acc[16];
        UNROLL for (int i = 0; i < 16; ++i) acc[i] = 0;
        V next_a[LOADS], next_b[LOADS];
        for (I k0 = 0; k0 < depth + DEPTH; k0 += DEPTH) {
            // The tile that was fetched while the one before it was multiplied.
            if (k0 > 0) {
                UNROLL for (u32 i = 0; i < LOADS; ++i) {
                    const u32 e = t.index + i * (PER_SLICE * SLICES);
                    const u32 ka = p.a_depth_first != 0 ? e % DEPTH : e / TILE;
                    const u32 kb = p.b_depth_first != 0 ? e % DEPTH : e / TILE;
                    tile_put<TILE>(a_tile, ka, p.a_depth_first != 0 ? e / DEPTH : e % TILE, next_a[i]);
                    tile_put<TILE>(b_tile, kb, p.b_depth_first != 0 ? e / DEPTH : e % TILE, next_b[i]);
                }
                group_barrier();
            }
            if (k0 < depth) {
                UNROLL for (u32 i = 0; i < LOADS; ++i) {
                    const u32 e = t.index + i * (PER_SLICE * SLICES);
                    const I ka = k0 + (p.a_depth_first != 0 ? e % DEPTH : e / TILE);
                    const I kb = k0 + (p.b_depth_first != 0 ? e % DEPTH : e / TILE);
                    const I am = m0 + (p.a_depth_first != 0 ? e / DEPTH : e % TILE);
                    const I bn = n0 + (p.b_depth_first != 0 ? e / DEPTH : e % TILE);
                    next_a[i] = 0;
                    next_b[i] = 0;
                    if (am < m && ka < depth) {
                        next_a[i] = load<A>(a, at[1] + am * a_row + ka * a_column);
#if DST == I32
                        if (p.has_bias != 0) next_a[i] -= load<A>(bias, at[3] + am * (I)p.row[3]);
#endif
                    }
                    if (bn < n && kb < depth) {
                        next_b[i] = load<B>(b, at[2] + kb * b_row + bn * b_column);
#if DST == I32
                        if (p.has_residual != 0) next_b[i] -= load<B>(residual, at[4] + bn * (I)p.column[4]);
#endif
                    }
                }
            }
            if (k0 > 0) {
                tile_multiply<TILE, TILE, 16>(a_tile, b_tile, slice * 16, row, column, acc);
                group_barrier();
            }
        }
        tile_join<SLICES, PER_SLICE>(t.index, scratch, acc);
        if (slice == 0) {
            UNROLL for (u32 i = 0; i < 4; ++i) {
                UNROLL for (u32 j = 0; j < 4; ++j) {
                    const I y = m0 + row * 4 + i, x = n0 + column * 4 + j;
                    if (y < m && x < n) {
                        V value = acc[4 * i + j];
#if DST != I32
                        value *= (V)p.scale;
                        if (p.has_bias != 0) {
                            value += (V)load<A>(bias, at[3] + y * (I)p.row[3] + x * (I)p.column[3]);
                        }
                        if (p.has_residual != 0) {
                            value += (V)load<A>(residual, at[4] + y * (I)p.row[4] + x * (I)p.column[4]);
                        }
                        value = activate<ACT>(value, (V)p.first, (V)p.second);
#endif
                        store<DST>(dst, at[0] + y * (I)p.row[0] + x * (I)p.column[0], value);
                    }
                }
            }
        }
    }
}
