// Items by their numbers, and zeros behind them. SIZE is the size of what is moved at once. The walk has output,
// input without the item, and the place of the item. INDIRECT: a place that was found is one of `order`.

typedef Raw<SIZE>::Stored Stored;
typedef Index<WIDE>::Type I;

KERNEL_4(dst, src, found, order) {
    const Thread t = THREAD;
    DEVICE const u64* sums = (DEVICE const u64*)found;
    DEVICE const u64* places = sums + p.chunks + 1;
    const u64 total = sums[p.chunks];
    for (I i = first_item<I>(t); i < (I)p.walk.count; i += all_items<I>(t)) {
        I at[3];
        locate<RANK, 3, I>(p.walk, i, at);
        Stored value = Stored();
        if ((u64)at[2] < total) {
            u64 item = places[at[2]];
            if (INDIRECT) item = ((DEVICE const u32*)order)[item];
            I start[1];
            locate<ITEM_RANK, 1, I>(p.items, (I)item, start);
            value = ((DEVICE const Stored*)src)[start[0] + at[1]];
        }
        ((DEVICE Stored*)dst)[at[0]] = value;
    }
}
