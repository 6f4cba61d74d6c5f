// Products with at most ROWS rows, for a matrix `b` whose elements along a row are near each other: a
// group has COLUMNS columns, and its threads share their depth.

#define AHEAD 8

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Value V;

KERNEL_5(dst, a, b, bias, residual) {
    const Thread t = THREAD;
    SHARED V parts[8 * ROWS * COLUMNS];
    const I columns = (I)p.n, depth = (I)p.k;
    const I first = (I)t.group * COLUMNS;
    const I n = first + t.index % COLUMNS < columns ? first + t.index % COLUMNS : columns - 1;
    const u32 slice = t.index / COLUMNS, slices = t.count / COLUMNS;
    for (I batch = t.group_y; batch < (I)p.batch; batch += t.groups_y) {
        const I b_at = (I)p.offset[2] + batch * (I)p.step[2] + n * (I)p.column[2];
        V sum[ROWS];
        UNROLL for (u32 r = 0; r < ROWS; ++r) sum[r] = 0;
        for (I k0 = slice; k0 < depth; k0 += slices * AHEAD) {
            V w[AHEAD];
            UNROLL for (u32 u = 0; u < AHEAD; ++u) {
                const I k = k0 + u * slices;
                if (k < depth) w[u] = load<DTYPE>(b, b_at + k * (I)p.row[2]);
            }
            UNROLL for (u32 r = 0; r < ROWS; ++r) {
                const I a_at = (I)p.offset[1] + batch * (I)p.step[1] + (r < (u32)p.m ? r : 0) * (I)p.row[1];
                UNROLL for (u32 u = 0; u < AHEAD; ++u) {
                    const I k = k0 + u * slices;
                    if (k < depth) sum[r] += w[u] * load<DTYPE>(a, a_at + k * (I)p.column[1]);
                }
            }
        }
        UNROLL for (u32 r = 0; r < ROWS; ++r) {
            UNROLL for (u32 mask = 16; mask >= COLUMNS; mask >>= 1) sum[r] += lane_xor(sum[r], mask);
            if (t.lane < COLUMNS) parts[(t.simd * ROWS + r) * COLUMNS + t.lane] = sum[r];
        }
        group_barrier();
        for (u32 item = t.index; item < (u32)p.m * COLUMNS; item += t.count) {
            const I row = item / COLUMNS, column = first + item % COLUMNS;
            if (column < columns) {
                V total = 0;
                for (u32 simd = 0; simd < t.count / 32; ++simd) total += parts[simd * (ROWS * COLUMNS) + item];
                V value = (V)p.scale * total;
                if (p.has_bias != 0) {
                    value += load<DTYPE>(bias, (I)p.offset[3] + batch * (I)p.step[3] + row * (I)p.row[3] + column * (I)p.column[3]);
                }
                if (p.has_residual != 0) {
                    value += load<DTYPE>(residual, (I)p.offset[4] + batch * (I)p.step[4] + row * (I)p.row[4] + column * (I)p.column[4]);
                }
                value = activate_any(p.act, value, (V)p.first, (V)p.second);
                store<DTYPE>(dst, (I)p.offset[0] + batch * (I)p.step[0] + row * (I)p.row[0] + column * (I)p.column[0], value);
            }
        }
        group_barrier();
    }
}
