// Rows that are sorted in memory, because more is wanted of them than a group can hold. The length is
// padded to a power of two. STAGE:
// 0: tiles of COUNT are made from the elements and sorted;
// 1: pairs `distance` apart, in runs of `run`;
// 2: the rest of a run, inside tiles;
// 3: tiles are made from the first entries, in the order of places, and sorted;
// 4: results.

typedef Element<TYPE>::Stored Stored;
enum { LONG = sizeof(Stored) == 8 };
typedef Entry<LONG> E;

KERNEL_5(values, indices, src, found, kept) {
    const Thread t = THREAD;
    const u64 rows = p.rows.count;
#if STAGE == 1
    for (u64 item = first_item<u64>(t); item < rows * p.padded / 2; item += all_items<u64>(t)) {
        // Rows are powers of two, so a pair never leaves its row.
        const u64 low = 2 * item - (item & (p.distance - 1)), high = low + p.distance;
        DEVICE E* all = (DEVICE E*)kept;
        const E a = all[low], b = all[high];
        const bool rises = (low & (p.padded - 1) & p.run) == 0;
        if (E::before(b, a) == rises) {
            all[low] = b;
            all[high] = a;
        }
    }
#elif STAGE == 4
    for (u64 item = first_item<u64>(t); item < rows * p.k; item += all_items<u64>(t)) {
        const u64 row = item / p.k, i = item % p.k;
        u64 at[3];
        locate<8, 3, u64>(p.rows, row + p.first_row, at);
        const u64 place = E::place(((DEVICE const E*)found)[row * p.padded + i]);
        const Stored value = ((DEVICE const Stored*)src)[at[2] + place * p.step];
        ((DEVICE Stored*)values)[at[0] + i * p.value_step] = value;
        ((DEVICE i64*)indices)[at[1] + i * p.index_step] = (i64)place;
    }
#else
    SHARED E entries[COUNT];
    const u64 tiles = p.padded / COUNT;
    for (u64 item = t.group; item < rows * tiles; item += t.groups) {
        const u64 row = item / tiles, first = item % tiles * COUNT;
        u64 at[3];
        locate<8, 3, u64>(p.rows, row + p.first_row, at);
        for (u32 i = t.index; i < COUNT; i += t.count) {
            E entry = E::last();
#if STAGE == 0
            if (first + i < p.length) {
                const Stored value = ((DEVICE const Stored*)src)[at[2] + (first + i) * p.step];
                entry = E::of(Rank<TYPE>::of(value), first + i, p.falls);
            }
#elif STAGE == 3
            if (first + i < p.k) entry = E::placed(((DEVICE const E*)found)[row * p.length + first + i]);
#else
            entry = ((DEVICE const E*)kept)[row * p.padded + first + i];
#endif
            entries[i] = entry;
        }
        group_barrier();
#if STAGE == 2
        KEEP_LOOP
        for (u32 distance = COUNT / 2; distance > 0; distance >>= 1) {
            bitonic_step<LONG, COUNT>(t, entries, first, p.run, distance);
        }
#else
        bitonic_sort<LONG, COUNT>(t, entries, first);
#endif
        for (u32 i = t.index; i < COUNT; i += t.count) {
            ((DEVICE E*)kept)[row * p.padded + first + i] = entries[i];
        }
        group_barrier();
    }
#endif
}
