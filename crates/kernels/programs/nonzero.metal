// The coordinates of what was found, a row for each axis, and zeros behind them.

KERNEL_2(dst, found) {
    const Thread t = THREAD;
    DEVICE const u64* sums = (DEVICE const u64*)found;
    DEVICE const u64* places = sums + p.chunks + 1;
    const u64 total = sums[p.chunks];
    for (u64 item = first_item<u64>(t); item < p.rank * p.size; item += all_items<u64>(t)) {
        const u64 axis = item / p.size, at = item % p.size;
        i64 value = 0;
        if (at < total) value = (i64)(places[at] / p.inner[axis] % p.shape[axis]);
        ((DEVICE i64*)dst)[p.offset + axis * p.row + at * p.column] = value;
    }
}
