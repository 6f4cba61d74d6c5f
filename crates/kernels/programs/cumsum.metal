// Running sums, or products, along an axis. MODE says who makes a row: 0 a thread, step by step; 2 a group, which adds
// up one stretch of the row after the other.

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Value T;

#if DTYPE <= F64 && PRODUCT
FN T plus(T a, T b) { return a * b; }
#elif DTYPE <= F64
FN T plus(T a, T b) { return a + b; }
#elif PRODUCT
FN T plus(T a, T b) { return wrapping_mul(a, b); }
#else
FN T plus(T a, T b) { return wrapping_add(a, b); }
#endif

KERNEL_2(dst, src) {
    const Thread t = THREAD;
    const I size = (I)p.size, to = (I)p.to, from = (I)p.from;
#if MODE == 0
    for (I row = first_item<I>(t); row < (I)p.rows.count; row += all_items<I>(t)) {
        I at[2];
        locate<RANK, 2, I>(p.rows, row, at);
        T sum = (T)PRODUCT;
        for (I step = 0; step < size; ++step) {
            const I i = REVERSE ? size - 1 - step : step;
            const T x = load<DTYPE>(src, at[1] + i * from);
            const T next = plus(sum, x);
            store<DTYPE>(dst, at[0] + i * to, EXCLUSIVE ? sum : next);
            sum = next;
        }
    }
#else
    SHARED T totals[32];
    const u32 simds = t.count / 32;
    for (I row = t.group; row < (I)p.rows.count; row += t.groups) {
        I at[2];
        locate<RANK, 2, I>(p.rows, row, at);
        T carry = (T)PRODUCT;
        for (I start = 0; start < size; start += t.count) {
            const I step = start + t.index;
            const I i = REVERSE ? size - 1 - step : step;
            T x = (T)PRODUCT;
            if (step < size) x = load<DTYPE>(src, at[1] + i * from);
            // Sums within the simd group.
            T sum = x;
            for (u32 by = 1; by < 32; by <<= 1) {
                const T before = lane_up(sum, by);
                if (t.lane >= by) sum = plus(before, sum);
            }
            T before = lane_up(sum, 1);
            if (t.lane == 0) before = (T)PRODUCT;
            if (t.lane == 31) totals[t.simd] = sum;
            group_barrier();
            // Then what the simd groups before have, always in the same order.
            T offset = carry;
            for (u32 s = 0; s < simds; ++s) {
                if (s < t.simd) offset = plus(offset, totals[s]);
                carry = plus(carry, totals[s]);
            }
            if (step < size) {
                store<DTYPE>(dst, at[0] + i * to, plus(offset, EXCLUSIVE ? before : sum));
            }
            group_barrier();
        }
    }
#endif
}
