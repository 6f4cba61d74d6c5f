// Small products of factors whose elements along the depth are near each other, as those of a linear layer
// are. A group has a tile of 8 · ROWS × 4 · COLUMNS results. Its simd groups share the depth, 16 elements at a
// time, and meet only at the end: what is waited for is memory, once, and not each other.

#define SLICES (THREADS / 32)
#define TILE_M (8 * ROWS)
#define TILE_N (4 * COLUMNS)
#define LOADS_A (TILE_M / 8)
#define LOADS_B (TILE_N / 8)
// Results that a thread stores, and how far apart.
#define STORES ((TILE_M * TILE_N + THREADS - 1) / THREADS)
#define ROWS_APART (THREADS / TILE_N)

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Stored S;
typedef Element<DTYPE>::Value V;
typedef Pack<S, 4> Q;
typedef Pack<V, 4> P;

// The next elements of a lane's rows, of those that a simd group has from `k` on; 0 beyond the depth.
template <int COUNT> FN void fetch(IN_THREAD Q* next, DEVICE const S* IN_THREAD* rows, u32 lane, I k, I depth) {
    const I own = k + lane % 4 * 4;
    if (k + STAGE_DEPTH <= depth) {
        UNROLL for (u32 i = 0; i < COUNT; ++i) next[i] = *(DEVICE const Q*)(rows[i] + own);
    } else if (k < depth) {
        UNROLL for (u32 i = 0; i < COUNT; ++i) {
            UNROLL for (u32 e = 0; e < 4; ++e) next[i].e[e] = 0;
            if (own < depth) next[i] = *(DEVICE const Q*)(rows[i] + own);
        }
    }
}

template <int COUNT> FN void put(IN_SHARED P* stage, u32 lane, IN_THREAD const Q* next) {
    UNROLL for (u32 i = 0; i < COUNT; ++i) {
        P values;
        UNROLL for (u32 e = 0; e < 4; ++e) values.e[e] = Element<DTYPE>::get(next[i].e[e]);
        stage[(lane / 4 + 8 * i) * STAGE_PITCH + lane % 4] = values;
    }
}

// Adds an element of each row that a thread stores, from row `y` on up to `m`.
FN void add_rows(IN_THREAD V* extra, DEVICE const u8* from, I at, I row, I y, I m) {
    UNROLL for (u32 i = 0; i < STORES; ++i) {
        if (y + i * ROWS_APART < m) extra[i] += load<DTYPE>(from, at + (y + i * ROWS_APART) * row);
    }
}

KERNEL_5(dst, a, b, bias, residual) {
    const Thread t = EARLY_THREAD;
    SHARED P stages[SLICES * STAGE_ROOM(TILE_M, TILE_N)];
    if (p.early == 0) after_the_one_before();
    const I m = (I)p.m, n = (I)p.n, depth = (I)p.k;
    const I m0 = (I)t.group * TILE_M, n0 = (I)t.group_z * TILE_N;
    // Where the results lie that this thread stores: in one column.
    const u32 first = t.index / TILE_N;
    const I x = n0 + t.index % TILE_N;
    const bool stores = x < n && first < TILE_M;
    const u32 row = t.lane / 4;
    IN_SHARED P* stage = stages + t.simd * STAGE_PACKS(TILE_M, TILE_N);
    IN_SHARED P* stage_b = stage + TILE_M * STAGE_PITCH;
    for (I batch = t.group_y; batch < (I)p.batch; batch += t.groups_y) {
        DEVICE const S* rows_a[LOADS_A];
        DEVICE const S* rows_b[LOADS_B];
        UNROLL for (u32 i = 0; i < LOADS_A; ++i) {
            const I y = m0 + row + 8 * i;
            rows_a[i] = (DEVICE const S*)a + ((I)p.offset[1] + batch * (I)p.step[1] + (y < m ? y : m - 1) * (I)p.row[1]);
        }
        UNROLL for (u32 i = 0; i < LOADS_B; ++i) {
            const I x = n0 + row + 8 * i;
            rows_b[i] = (DEVICE const S*)b + ((I)p.offset[2] + batch * (I)p.step[2] + (x < n ? x : n - 1) * (I)p.column[2]);
        }
        V acc[ROWS * COLUMNS];
        UNROLL for (u32 i = 0; i < ROWS * COLUMNS; ++i) acc[i] = 0;
        Q next_a[LOADS_A], next_b[LOADS_B];
        V extra[STORES];
        fetch<LOADS_B>(next_b, rows_b, t.lane, t.simd * STAGE_DEPTH, depth);
        if (p.early != 0) after_the_one_before();
        fetch<LOADS_A>(next_a, rows_a, t.lane, t.simd * STAGE_DEPTH, depth);
        // What is added to the results is asked for before they are known. A bias mostly is the same for all rows.
        V shared_bias = 0;
        if (stores && p.has_bias != 0 && p.row[3] == 0) {
            shared_bias = load<DTYPE>(bias, (I)p.offset[3] + batch * (I)p.step[3] + x * (I)p.column[3]);
        }
        UNROLL for (u32 i = 0; i < STORES; ++i) extra[i] = shared_bias;
        if (p.has_bias != 0 && p.row[3] != 0) {
            add_rows(extra, bias, (I)p.offset[3] + batch * (I)p.step[3] + x * (I)p.column[3], (I)p.row[3], m0 + first, stores ? m : 0);
        }
        if (p.has_residual != 0) {
            add_rows(extra, residual, (I)p.offset[4] + batch * (I)p.step[4] + x * (I)p.column[4], (I)p.row[4], m0 + first, stores ? m : 0);
        }
        for (I k = t.simd * STAGE_DEPTH; k < depth; k += SLICES * STAGE_DEPTH) {
            simd_group_barrier();
            put<LOADS_A>(stage, t.lane, next_a);
            put<LOADS_B>(stage_b, t.lane, next_b);
            simd_group_barrier();
            fetch<LOADS_B>(next_b, rows_b, t.lane, k + SLICES * STAGE_DEPTH, depth);
            fetch<LOADS_A>(next_a, rows_a, t.lane, k + SLICES * STAGE_DEPTH, depth);
            stage_multiply<ROWS, COLUMNS>(stage, stage_b, t.lane, acc);
        }
        IN_SHARED V* sums = (IN_SHARED V*)stages;
        stage_gather<ROWS, COLUMNS>(sums, t, acc);
        stage_finish<STORES, SLICES, TILE_M * TILE_N, THREADS>(sums, t.index, p, extra);
        const I to = (I)p.offset[0] + batch * (I)p.step[0] + x * (I)p.column[0];
        UNROLL for (u32 i = 0; i < STORES; ++i) {
            const I y = m0 + first + i * ROWS_APART;
            if (stores && y < m) store<DTYPE>(dst, to + y * (I)p.row[0], extra[i]);
        }
        group_barrier();
    }
}
