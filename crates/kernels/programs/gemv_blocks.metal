// Products of at most ROWS rows with weights of few bits: a simd group has one column, and a lane takes four bytes
// of it at a time, in one word where ALIGNED.

#define IN_WORD (32 / BITS)

typedef Index<WIDE>::Type I;

KERNEL_7(dst, a, weights, scales, zeros, bias, residual) {
    const Thread t = THREAD;
    const I column = (I)t.group * (t.count / 32) + t.simd;
    const bool inside = column < (I)p.n;
    const I n = inside ? column : (I)p.n - 1;
    const I depth = (I)p.k, words = ((I)p.blocks << p.shift) / IN_WORD;
    for (I batch = t.group_y; batch < (I)p.batch.count; batch += t.groups_y) {
        I at[5];
        locate<RANK, 5, I>(p.batch, batch, at);
        f32 sum[ROWS];
        UNROLL for (u32 r = 0; r < ROWS; ++r) sum[r] = 0.0f;
        for (I i = t.lane; i < words; i += 32) {
            const I k0 = i * IN_WORD, block = k0 >> p.shift;
            const I place = block_byte<BITS>(p, n, k0);
            u32 word;
            if (ALIGNED) {
                word = *(DEVICE const u32*)(weights + place);
            } else {
                word = (u32)weights[place] | (u32)weights[place + 1] << 8 | (u32)weights[place + 2] << 16
                    | (u32)weights[place + 3] << 24;
            }
            const f32 zero = block_zero<DTYPE, BITS, ZERO>(zeros, p, n, block);
            const f32 scale = block_scale<DTYPE>(scales, p, n, block);
            UNROLL for (u32 e = 0; e < IN_WORD; ++e) {
                const I k = k0 + e;
                if (k < depth) {
                    const f32 w = ((f32)few_bits<BITS>(word, e) - zero) * scale;
                    UNROLL for (u32 r = 0; r < ROWS; ++r) {
                        const I row = r < (u32)p.m ? r : 0;
                        sum[r] += w * load<DTYPE>(a, at[1] + row * (I)p.row[1] + k * (I)p.column[1]);
                    }
                }
            }
        }
        f32 mine = 0.0f;
        UNROLL for (u32 r = 0; r < ROWS; ++r) {
            const f32 total = lanes_join<Sum>(sum[r]);
            if (t.lane == r) mine = total;
        }
        if (inside && t.lane < (u32)p.m) {
            const I y = t.lane;
            f32 value = mine * p.scale;
            if (p.has_bias != 0) value += load<DTYPE>(bias, at[3] + y * (I)p.row[3] + n * (I)p.column[3]);
            if (p.has_residual != 0) value += load<DTYPE>(residual, at[4] + y * (I)p.row[4] + n * (I)p.column[4]);
            value = activate_any(p.act, value, p.first, p.second);
            store<DTYPE>(dst, at[0] + y * (I)p.row[0] + n * (I)p.column[0], value);
        }
    }
}
