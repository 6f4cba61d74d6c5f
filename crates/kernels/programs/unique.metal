// Items of one or more elements, in rising order and by their numbers among equals. The length is padded to a power
// of two. STAGE:
// 0: tiles of COUNT numbers are sorted;
// 1: pairs `distance` apart, in runs of `run`;
// 2: the rest of a run, inside tiles;
// 3: which items differ from the one before: by their place in the order, and by their number.

typedef Index<WIDE>::Type I;
typedef Element<TYPE>::Stored Stored;
#define NOTHING 0xffffffffu

FN I start_of(IN_PARAMS Params& p, u32 item) {
    I at[1];
    locate<ITEM_RANK, 1, I>(p.items, (I)item, at);
    return at[0];
}

// Below, equal to or above 0 as the first item is before, equal to or behind the second.
FN i32 compare(IN_PARAMS Params& p, DEVICE const u8* src, u32 a, u32 b) {
    const I first = start_of(p, a), second = start_of(p, b);
    for (I i = 0; i < (I)p.slice.count; ++i) {
        I at[1];
        locate<SLICE_RANK, 1, I>(p.slice, i, at);
        const u64 x = Rank<TYPE>::of(((DEVICE const Stored*)src)[first + at[0]]);
        const u64 y = Rank<TYPE>::of(((DEVICE const Stored*)src)[second + at[0]]);
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

FN bool comes_before(IN_PARAMS Params& p, DEVICE const u8* src, u32 a, u32 b) {
    if (a == NOTHING || b == NOTHING) return a != NOTHING;
    const i32 order = compare(p, src, a, b);
    return order < 0 || (order == 0 && a < b);
}

#if STAGE == 0 || STAGE == 2
FN void sort_step(Thread t, IN_PARAMS Params& p, DEVICE const u8* src, IN_SHARED u32* numbers, u64 first, u64 run, u32 distance) {
    KEEP_LOOP
    for (u32 i = t.index; i < COUNT / 2; i += t.count) {
        const u32 low = 2 * i - (i & (distance - 1)), high = low + distance;
        const bool rises = ((first + low) & run) == 0;
        const u32 a = numbers[low], b = numbers[high];
        if (a != b && comes_before(p, src, b, a) == rises) {
            numbers[low] = b;
            numbers[high] = a;
        }
    }
    group_barrier();
}
#endif

KERNEL_4(src, order, heads, firsts) {
    const Thread t = THREAD;
    DEVICE u32* all = (DEVICE u32*)order;
#if STAGE == 1
    for (u64 item = first_item<u64>(t); item < p.padded / 2; item += all_items<u64>(t)) {
        const u64 low = 2 * item - (item & (p.distance - 1)), high = low + p.distance;
        const u32 a = all[low], b = all[high];
        if (a != b && comes_before(p, src, b, a) == ((low & p.run) == 0)) {
            all[low] = b;
            all[high] = a;
        }
    }
#elif STAGE == 3
    for (u64 i = first_item<u64>(t); i < p.items.count; i += all_items<u64>(t)) {
        const u32 item = all[i];
        const u8 head = i == 0 || compare(p, src, item, all[i - 1]) != 0 ? 1 : 0;
        heads[i] = head;
        firsts[item] = head;
    }
#else
    SHARED u32 numbers[COUNT];
    for (u64 tile = t.group; tile < p.padded / COUNT; tile += t.groups) {
        const u64 first = tile * COUNT;
        for (u32 i = t.index; i < COUNT; i += t.count) {
#if STAGE == 0
            numbers[i] = first + i < p.items.count ? (u32)(first + i) : NOTHING;
#else
            numbers[i] = all[first + i];
#endif
        }
        group_barrier();
#if STAGE == 0
        KEEP_LOOP
        for (u32 run = 2; run <= COUNT; run <<= 1) {
            KEEP_LOOP
            for (u32 distance = run / 2; distance > 0; distance >>= 1) {
                sort_step(t, p, src, numbers, first, run, distance);
            }
        }
#else
        KEEP_LOOP
        for (u32 distance = COUNT / 2; distance > 0; distance >>= 1) {
            sort_step(t, p, src, numbers, first, p.run, distance);
        }
#endif
        for (u32 i = t.index; i < COUNT; i += t.count) all[first + i] = numbers[i];
        group_barrier();
    }
#endif
}
