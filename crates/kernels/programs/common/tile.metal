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
