// Products of tiles in group memory. A tile holds TK columns of four-element packs; row `k` has WIDTH
// elements and one pack more, so that stores down a column meet different banks.
#define TILE_ROW(WIDTH) ((WIDTH) / 4 + 1)
#define TILE_PACKS(WIDTH, DEPTH) ((DEPTH) * TILE_ROW(WIDTH))

// Puts an element of the tile at depth `k` and place `at`.
template <int WIDTH, typename V> FN void tile_put(IN_SHARED Pack<V, 4>* tile, u32 k, u32 at, V value) {
    ((IN_SHARED V*)tile)[k * (WIDTH + 4) + at] = value;
}

// acc[4 · i + j] += Σ a[k][4 · row + i] · b[k][4 · column + j] over `DEPTH` values of k from `first` on.
template <int TM, int TN, int DEPTH, typename V>
FN void tile_multiply(IN_SHARED const Pack<V, 4>* a, IN_SHARED const Pack<V, 4>* b, u32 first, u32 row,
                      u32 column, IN_THREAD V* acc) {
    UNROLL for (u32 k = 0; k < DEPTH; ++k) {
        const Pack<V, 4> x = a[(first + k) * TILE_ROW(TM) + row];
        const Pack<V, 4> y = b[(first + k) * TILE_ROW(TN) + column];
        UNROLL for (int i = 0; i < 4; ++i) {
            UNROLL for (int j = 0; j < 4; ++j) acc[4 * i + j] += x.e[i] * y.e[j];
        }
    }
}

// Sums what the slices of a group have gathered in `acc`, into that of slice 0, always in one order.
// `scratch` has room for 16 values of every thread that is not of slice 0.
template <int SLICES, int PER_SLICE, typename V>
FN void tile_join(u32 index, IN_SHARED V* scratch, IN_THREAD V* acc) {
    if (SLICES == 1) return;
    if (index >= PER_SLICE) {
        UNROLL for (u32 i = 0; i < 16; ++i) scratch[i * (SLICES - 1) * PER_SLICE + index - PER_SLICE] = acc[i];
    }
    group_barrier();
    if (index < PER_SLICE) {
        for (u32 slice = 0; slice + 1 < SLICES; ++slice) {
            UNROLL for (u32 i = 0; i < 16; ++i) {
                acc[i] += scratch[(i * (SLICES - 1) + slice) * PER_SLICE + index];
            }
        }
    }
    group_barrier();
}

// Tiles of 8 · ROWS × 4 · COLUMNS whose depth is shared by simd groups. Each has a stage of its own: 16 elements
// of every row of both factors, and a pitch of one pack more, so that 8 rows meet different banks. Lane 4 · y + x
// has the results of rows y, y + 8, … and columns x, x + 4, …
#define STAGE_DEPTH 16
#define STAGE_PITCH (STAGE_DEPTH / 4 + 1)
#define STAGE_PACKS(M, N) (((M) + (N)) * STAGE_PITCH)
// Room for a stage, or for what a simd group has found in the end.
#define STAGE_ROOM(M, N) (STAGE_PACKS(M, N) > (M) * (N) / 4 ? STAGE_PACKS(M, N) : (M) * (N) / 4)

template <int ROWS, int COLUMNS, typename V>
FN void stage_multiply(IN_SHARED const Pack<V, 4>* a, IN_SHARED const Pack<V, 4>* b, u32 lane, IN_THREAD V* acc) {
    UNROLL for (u32 k = 0; k < STAGE_DEPTH / 4; ++k) {
        Pack<V, 4> x[ROWS], y[COLUMNS];
        UNROLL for (u32 i = 0; i < ROWS; ++i) x[i] = a[(lane / 4 + 8 * i) * STAGE_PITCH + k];
        UNROLL for (u32 j = 0; j < COLUMNS; ++j) y[j] = b[(lane % 4 + 4 * j) * STAGE_PITCH + k];
        UNROLL for (u32 i = 0; i < ROWS; ++i) {
            UNROLL for (u32 j = 0; j < COLUMNS; ++j) {
                UNROLL for (u32 e = 0; e < 4; ++e) acc[i * COLUMNS + j] += x[i].e[e] * y[j].e[e];
            }
        }
    }
}

// Puts what every simd group has found one behind the other, where the stages were.
template <int ROWS, int COLUMNS, typename V>
FN void stage_gather(IN_SHARED V* sums, Thread t, IN_THREAD const V* acc) {
    group_barrier();
    UNROLL for (u32 i = 0; i < ROWS; ++i) {
        UNROLL for (u32 j = 0; j < COLUMNS; ++j) {
            const u32 row = t.lane / 4 + 8 * i, column = t.lane % 4 + 4 * j;
            sums[(t.simd * 8 * ROWS + row) * 4 * COLUMNS + column] = acc[i * COLUMNS + j];
        }
    }
    group_barrier();
}

// The results that a thread stores, every COUNT-th from `first` on: scale and activation are `p`'s, and `results`
// has what is added to each. Sums over simd groups are always taken in one order.
template <int STORES, int SLICES, int SIZE, int COUNT, typename V, typename P>
FN void stage_finish(IN_SHARED V* sums, u32 first, IN_PARAMS P& p, IN_THREAD V* results) {
    UNROLL for (u32 i = 0; i < STORES; ++i) {
        const u32 at = first + i * COUNT;
        if (at < SIZE) {
            V value = 0;
            UNROLL for (u32 slice = 0; slice < SLICES; ++slice) value += sums[slice * SIZE + at];
            results[i] += (V)p.scale * value;
            if (p.act == ACT_RELU) results[i] = activate<ACT_RELU>(results[i], (V)0, (V)0);
            if (p.act > ACT_RELU) sums[at] = results[i];
        }
    }
    if (p.act <= ACT_RELU) return;
    // Other activations in one loop for all, so that they are not written out so many times. Nobody else has these.
    KEEP_LOOP for (u32 at = first; at < SIZE; at += COUNT) {
        sums[at] = activate_any(p.act, sums[at], (V)p.first, (V)p.second);
    }
    UNROLL for (u32 i = 0; i < STORES; ++i) {
        if (first + i * COUNT < SIZE) results[i] = sums[first + i * COUNT];
    }
}
