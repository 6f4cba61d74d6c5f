// Elements as numbers in whose order they come, for sorting and selecting.

// Unsigned numbers in the order of the elements. NaN is above all and equal to itself, and so are zeros.
template <int D> struct Rank {
    FN u32 of(typename Element<D>::Stored x) { return (u32)(i32)x ^ 0x80000000u; }
};
FN u32 rank_of_f32(f32 x) {
    const u32 bits = bits_of(x);
    if (x != x) return 0xffffffffu;
    if ((bits & 0x7fffffffu) == 0) return 0x80000000u;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
template <> struct Rank<F32> { FN u32 of(f32 x) { return rank_of_f32(x); } };
template <> struct Rank<F16> { FN u32 of(u16 x) { return rank_of_f32(f32_from_f16(x)); } };
template <> struct Rank<BF16> { FN u32 of(u16 x) { return rank_of_f32(f32_from_bf16(x)); } };
template <> struct Rank<U32> { FN u32 of(u32 x) { return x; } };
template <> struct Rank<U64> { FN u64 of(u64 x) { return x; } };
template <> struct Rank<I64> { FN u64 of(i64 x) { return (u64)x ^ (u64)1 << 63; } };
#if HAS_F64
template <> struct Rank<F64> {
    FN u64 of(f64 x) {
        const u64 bits = bits_of(x), sign = (u64)1 << 63;
        if (x != x) return ~(u64)0;
        if ((bits & ~sign) == 0) return sign;
        return (bits & sign) != 0 ? ~bits : bits | sign;
    }
};
#endif

// What is sorted: a rank and a place, no two alike. Elements of 8 bytes need two words.
template <int LONG> struct Entry;
template <> struct Entry<0> {
    u64 both;
    FN Entry<0> of(u32 rank, u64 place, u32 falls) {
        const Entry<0> entry = {(u64)(falls != 0 ? ~rank : rank) << 32 | place};
        return entry;
    }
    FN Entry<0> last() {
        const Entry<0> entry = {~(u64)0};
        return entry;
    }
    FN u64 place(Entry<0> entry) { return entry.both & 0xffffffffu; }
    // In the order of places.
    FN Entry<0> placed(Entry<0> entry) {
        const Entry<0> other = {entry.both & 0xffffffffu};
        return other;
    }
    FN bool before(Entry<0> a, Entry<0> b) { return a.both < b.both; }
};
template <> struct Entry<1> {
    u64 rank, at;
    FN Entry<1> of(u64 rank, u64 place, u32 falls) {
        const Entry<1> entry = {falls != 0 ? ~rank : rank, place};
        return entry;
    }
    FN Entry<1> last() {
        const Entry<1> entry = {~(u64)0, ~(u64)0};
        return entry;
    }
    FN u64 place(Entry<1> entry) { return entry.at; }
    FN Entry<1> placed(Entry<1> entry) {
        const Entry<1> other = {0, entry.at};
        return other;
    }
    FN bool before(Entry<1> a, Entry<1> b) { return a.rank < b.rank || (a.rank == b.rank && a.at < b.at); }
};

// One step of bitonic sorting: pairs `distance` apart, in runs of `run` that rise and fall in turn.
// `first` is the place of entries[0] in the whole.
template <int LONG, int COUNT>
FN void bitonic_step(Thread t, IN_SHARED Entry<LONG>* entries, u64 first, u64 run, u32 distance) {
    KEEP_LOOP
    for (u32 i = t.index; i < COUNT / 2; i += t.count) {
        const u32 low = 2 * i - (i & (distance - 1)), high = low + distance;
        const bool rises = ((first + low) & run) == 0;
        const Entry<LONG> a = entries[low], b = entries[high];
        if (Entry<LONG>::before(b, a) == rises) {
            entries[low] = b;
            entries[high] = a;
        }
    }
    group_barrier();
}
// Sorts COUNT entries; they fall or rise as their place in the whole, `first`, says.
template <int LONG, int COUNT>
FN void bitonic_sort(Thread t, IN_SHARED Entry<LONG>* entries, u64 first) {
    KEEP_LOOP
    for (u32 run = 2; run <= COUNT; run <<= 1) {
        KEEP_LOOP
        for (u32 distance = run / 2; distance > 0; distance >>= 1) {
            bitonic_step<LONG, COUNT>(t, entries, first, run, distance);
        }
    }
}
