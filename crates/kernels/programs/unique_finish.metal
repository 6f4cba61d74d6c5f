// The numbers of the different items: the first of each, which one an item is, and how many each has. `found` has the
// places in the order where a new one begins; without SORTED, `came` has the first items in the order in which they
// came.

// How many of a rising list are below a number.
FN u64 below(DEVICE const u64* list, u64 count, u64 number) {
    u64 low = 0;
    while (count > 0) {
        const u64 half_count = count / 2;
        if (list[low + half_count] < number) {
            low += half_count + 1;
            count -= half_count + 1;
        } else {
            count = half_count;
        }
    }
    return low;
}

KERNEL_6(first, inverse, counts, order, found, came) {
    const Thread t = THREAD;
    DEVICE const u64* heads = (DEVICE const u64*)found + p.chunks + 1;
    DEVICE const u64* firsts = (DEVICE const u64*)came + p.chunks + 1;
    DEVICE const u32* items = (DEVICE const u32*)order;
    const u64 total = ((DEVICE const u64*)found)[p.chunks];
    for (u64 i = first_item<u64>(t); i < p.count; i += all_items<u64>(t)) {
        const u64 own = below(heads, total, i + 1) - 1;
        u64 number = own;
        if (!SORTED) number = below(firsts, total, items[heads[own]]);
        ((DEVICE i64*)inverse)[p.offset[1] + items[i] * p.step[1]] = (i64)number;
        u64 place = i;
        i64 item = 0, many = 0;
        if (i < total) {
            item = (i64)items[heads[i]];
            many = (i64)((i + 1 < total ? heads[i + 1] : p.count) - heads[i]);
            if (!SORTED) place = below(firsts, total, (u64)item);
        }
        ((DEVICE i64*)first)[p.offset[0] + place * p.step[0]] = item;
        ((DEVICE i64*)counts)[p.offset[2] + place * p.step[2]] = many;
    }
}
