// The places of elements other than zero, in row-major order. `found` has a number for each chunk of elements,
// then the number of all places, then the places. STAGE:
// 0: how many there are in each chunk;
// 1: how many there are before it, by one group;
// 2: the places.

typedef Index<WIDE>::Type I;

#if STAGE != 1
FN u32 holds(DEVICE const u8* src, IN_PARAMS Params& p, I i) {
    I at[1];
    locate<RANK, 1, I>(p.walk, i, at);
    return load<TYPE>(src, at[0]) != 0 ? 1u : 0u;
}
#endif

KERNEL_3(src, found, count) {
    const Thread t = THREAD;
    DEVICE u64* sums = (DEVICE u64*)found;
#if STAGE == 1
    SHARED u64 scratch[32];
    u64 carry = 0;
    for (u64 start = 0; start < p.chunks; start += t.count) {
        const u64 i = start + t.index;
        u64 own = 0, total;
        if (i < p.chunks) own = sums[i];
        const u64 before = group_before(t, own, scratch, total);
        if (i < p.chunks) sums[i] = carry + before;
        carry += total;
    }
    if (t.index == 0) {
        sums[p.chunks] = carry;
        if (p.has_count != 0) ((DEVICE i64*)count)[p.count_at] = (i64)carry;
    }
#else
    SHARED u32 scratch[32];
    const I all = (I)p.walk.count, chunk = (I)p.chunk;
    for (I own = t.group; own < (I)p.chunks; own += t.groups) {
        const I begin = own * chunk;
        const I end = all - begin < chunk ? all : begin + chunk;
#if STAGE == 0
        u32 number = 0;
        for (I i = begin + t.index; i < end; i += t.count) number += holds(src, p, i);
        number = group_join<Sum>(t, number, 0u, scratch);
        if (t.index == 0) sums[own] = number;
#else
        DEVICE u64* places = sums + p.chunks + 1;
        u64 carry = sums[own];
        for (I start = begin; start < end; start += t.count) {
            const I i = start + t.index;
            u32 flag = 0, total;
            if (i < end) flag = holds(src, p, i);
            const u32 before = group_before(t, flag, scratch, total);
            if (flag != 0) places[carry + before] = i;
            carry += total;
        }
#endif
    }
#endif
}
