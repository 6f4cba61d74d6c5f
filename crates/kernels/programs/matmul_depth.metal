// Small products of factors whose elements along the depth are near each other, as those of a linear layer
// are. A group has a tile of 8 · ROWS × 4 · COLUMNS results. Its simd groups share the depth, 16 elements at a
// time, and meet only at the end: what is waited for is memory, once, and not each other.

#define SLICES (THREADS / 32)
#define TILE_M (8 * ROWS)
#define TILE_N (4 * COLUMNS)
#define LOADS_A (TILE_M / 8)
#define LOADS_B (TILE_N / 8)
// Results that a thread stores.
#define STORES ((TILE_M * TILE_N + THREADS - 1) / THREADS)

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Stored S;
typedef Element<DTYPE>::Value V;
typedef Pack<S, 4> Q;
typedef Pack<V, 4> P;

// The next elements of a lane's rows; 0 beyond the depth.
template <int COUNT> FN void fetch(IN_THREAD Q* next, DEVICE const S* IN_THREAD* rows, I k, I depth) {
    UNROLL for (u32 i = 0; i < COUNT; ++i) {
        if (k < depth) {
            next[i] = *(DEVICE const Q*)(rows[i] + k);
        } else {
            UNROLL for (u32 e = 0; e < 4; ++e) next[i].e[e] = 0;
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

KERNEL_5(dst, a, b, bias, residual) {
    const Thread t = EARLY_THREAD;
    SHARED P stages[SLICES * STAGE_ROOM(TILE_M, TILE_N)];
    if (p.early == 0) after_the_one_before();
    const I m = (I)p.m, n = (I)p.n, depth = (I)p.k;
    const I tiles = (m + TILE_M - 1) / TILE_M;
    const I m0 = (I)t.group % tiles * TILE_M, n0 = (I)t.group / tiles * TILE_N;
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
        const I own = t.simd * STAGE_DEPTH + t.lane % 4 * 4;
        fetch<LOADS_B>(next_b, rows_b, own, depth);
        if (p.early != 0) after_the_one_before();
        fetch<LOADS_A>(next_a, rows_a, own, depth);
        // What is added to the results is asked for before they are known.
        UNROLL for (u32 i = 0; i < STORES; ++i) {
            const u32 at = t.index + i * THREADS;
            const I y = m0 + at / TILE_N, x = n0 + at % TILE_N;
            extra[i] = 0;
            if (at < TILE_M * TILE_N && y < m && x < n) {
                if (p.has_bias != 0) {
                    extra[i] += load<DTYPE>(bias, (I)p.offset[3] + batch * (I)p.step[3] + y * (I)p.row[3] + x * (I)p.column[3]);
                }
                if (p.has_residual != 0) {
                    extra[i] += load<DTYPE>(residual, (I)p.offset[4] + batch * (I)p.step[4] + y * (I)p.row[4] + x * (I)p.column[4]);
                }
            }
        }
        for (I k0 = 0; k0 + t.simd * STAGE_DEPTH < depth; k0 += SLICES * STAGE_DEPTH) {
            simd_group_barrier();
            put<LOADS_A>(stage, t.lane, next_a);
            put<LOADS_B>(stage_b, t.lane, next_b);
            simd_group_barrier();
            fetch<LOADS_B>(next_b, rows_b, k0 + SLICES * STAGE_DEPTH + own, depth);
            fetch<LOADS_A>(next_a, rows_a, k0 + SLICES * STAGE_DEPTH + own, depth);
            stage_multiply<ROWS, COLUMNS>(stage, stage_b, t.lane, acc);
        }
        IN_SHARED V* sums = (IN_SHARED V*)stages;
        stage_gather<ROWS, COLUMNS>(sums, t, acc);
        stage_finish<STORES, SLICES, TILE_M * TILE_N, THREADS>(sums, t.index, p, extra);
        UNROLL for (u32 i = 0; i < STORES; ++i) {
            const u32 at = t.index + i * THREADS;
            const I y = m0 + at / TILE_N, x = n0 + at % TILE_N;
            if (at < TILE_M * TILE_N && y < m && x < n) {
                store<DTYPE>(dst, (I)p.offset[0] + batch * (I)p.step[0] + y * (I)p.row[0] + x * (I)p.column[0], extra[i]);
            }
        }
        group_barrier();
    }
}
