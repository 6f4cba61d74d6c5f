// The best of every tile of a row, sorted: from the elements of TYPE (FROM 0), or from what an earlier
// pass left (FROM 1, where TYPE stands for the size). The last pass writes the results.

typedef Element<TYPE>::Stored Stored;
enum { LONG = sizeof(Stored) == 8 };
typedef Entry<LONG> E;

template <int SOURCE> struct Read {
    FN E entry(IN_PARAMS Params& p, DEVICE const u8* src, DEVICE const u8* found, u64 row, u64 start, u64 i) {
        return E::of(Rank<TYPE>::of(((DEVICE const Stored*)src)[start + i * p.step]), i, p.falls);
    }
};
template <> struct Read<1> {
    FN E entry(IN_PARAMS Params& p, DEVICE const u8* src, DEVICE const u8* found, u64 row, u64 start, u64 i) {
        return ((DEVICE const E*)found)[row * p.length + i];
    }
};

KERNEL_5(values, indices, src, found, kept) {
    SHARED E entries[COUNT];
    const Thread t = THREAD;
    for (u64 item = t.group; item < p.rows.count * p.tiles; item += t.groups) {
        const u64 row = item / p.tiles, tile = item % p.tiles;
        u64 at[3];
        locate<8, 3, u64>(p.rows, row, at);
        const u64 first = tile * COUNT;
        for (u32 i = t.index; i < COUNT; i += t.count) {
            entries[i] = E::last();
            if (first + i < p.length) entries[i] = Read<FROM>::entry(p, src, found, row, at[2], first + i);
        }
        group_barrier();
        bitonic_sort<LONG, COUNT>(t, entries, 0);
        if (p.tiles > 1) {
            for (u32 i = t.index; i < p.k; i += t.count) {
                ((DEVICE E*)kept)[(row * p.tiles + tile) * p.k + i] = entries[i];
            }
        } else {
            if (p.by_place != 0) {
                for (u32 i = t.index; i < COUNT; i += t.count) {
                    E entry = E::last();
                    if (i < p.k) entry = E::placed(entries[i]);
                    entries[i] = entry;
                }
                group_barrier();
                bitonic_sort<LONG, COUNT>(t, entries, 0);
            }
            for (u32 i = t.index; i < p.k; i += t.count) {
                const u64 place = E::place(entries[i]);
                const Stored value = ((DEVICE const Stored*)src)[at[2] + place * p.step];
                ((DEVICE Stored*)values)[at[0] + i * p.value_step] = value;
                ((DEVICE i64*)indices)[at[1] + i * p.index_step] = (i64)place;
            }
        }
        group_barrier();
    }
}
