// Products with at most ROWS rows, for a matrix `b` whose elements along the depth are near each other:
// LANES lanes of a simd group have one column of `b`, and all of them together one result per row.

#define AHEAD 8

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Stored S;
typedef Element<DTYPE>::Value V;
typedef Pack<S, VECTOR> P;

// The next elements of a column that a lane takes.
FN void fetch(IN_THREAD P* w, DEVICE const S* weights, I first, I depth, I step) {
    UNROLL for (u32 u = 0; u < AHEAD; ++u) {
        const I k = first + u * (LANES * VECTOR);
        if (k < depth) w[u] = *(DEVICE const P*)(weights + k * step);
    }
}

KERNEL_5(dst, a, b, bias, residual) {
    const Thread t = EARLY_THREAD;
    // Where the kernel before does not write `b`, as is usual for weights, its first elements are asked for
    // while that one still runs.
    if (p.early == 0) after_the_one_before();
    const u32 lane = t.lane % LANES;
    const I column = ((I)t.group * (t.count / 32) + t.simd) * (32 / LANES) + t.lane / LANES;
    const bool inside = column < (I)p.n;
    const I n = inside ? column : (I)p.n - 1;
    const I depth = (I)p.k;
    // The lane that stores a row has what is added to it at hand before the sum is known.
    const I mine = lane < (u32)p.m ? lane : 0;
    const bool stores = inside && lane < (u32)p.m;
    for (I batch = t.group_y; batch < (I)p.batch; batch += t.groups_y) {
        DEVICE const S* weights = (DEVICE const S*)b + ((I)p.offset[2] + batch * (I)p.step[2] + n * (I)p.column[2]);
        const I step = VECTOR > 1 ? 1 : (I)p.row[2];
        P w[AHEAD];
        fetch(w, weights, lane * VECTOR, depth, step);
        if (p.early != 0) after_the_one_before();
        V extra = 0;
        if (stores && p.has_bias != 0) {
            extra += load<DTYPE>(bias, (I)p.offset[3] + batch * (I)p.step[3] + mine * (I)p.row[3] + n * (I)p.column[3]);
        }
        if (stores && p.has_residual != 0) {
            extra += load<DTYPE>(residual, (I)p.offset[4] + batch * (I)p.step[4] + mine * (I)p.row[4] + n * (I)p.column[4]);
        }
        DEVICE const S* rows[ROWS];
        V sum[ROWS][4];
        UNROLL for (u32 r = 0; r < ROWS; ++r) {
            const I row = r < (u32)p.m ? r : 0;
            rows[r] = (DEVICE const S*)a + ((I)p.offset[1] + batch * (I)p.step[1] + row * (I)p.row[1]);
            UNROLL for (u32 e = 0; e < 4; ++e) sum[r][e] = 0;
        }
        for (I k0 = lane * VECTOR; k0 < depth; k0 += LANES * VECTOR * AHEAD) {
            UNROLL for (u32 r = 0; r < ROWS; ++r) {
                P x[AHEAD];
                UNROLL for (u32 u = 0; u < AHEAD; ++u) {
                    const I k = k0 + u * (LANES * VECTOR);
                    if (k < depth) x[u] = *(DEVICE const P*)(rows[r] + k * (VECTOR > 1 ? 1 : (I)p.column[1]));
                }
                UNROLL for (u32 u = 0; u < AHEAD; ++u) {
                    if (k0 + u * (LANES * VECTOR) < depth) {
                        UNROLL for (u32 e = 0; e < VECTOR; ++e) {
                            sum[r][(u * VECTOR + e) % 4] += Element<DTYPE>::get(w[u].e[e]) * Element<DTYPE>::get(x[u].e[e]);
                        }
                    }
                }
            }
            fetch(w, weights, k0 + LANES * VECTOR * AHEAD, depth, step);
        }
        V result = 0;
        UNROLL for (u32 r = 0; r < ROWS; ++r) {
            V total = (sum[r][0] + sum[r][1]) + (sum[r][2] + sum[r][3]);
            UNROLL for (u32 mask = LANES / 2; mask > 0; mask >>= 1) total += lane_xor(total, mask);
            if (lane == r) result = total;
        }
        if (stores) {
            const V value = activate<ACT>((V)p.scale * result + extra, (V)p.first, (V)p.second);
            store<DTYPE>(dst, (I)p.offset[0] + batch * (I)p.step[0] + mine * (I)p.row[0] + n * (I)p.column[0], value);
        }
    }
}
