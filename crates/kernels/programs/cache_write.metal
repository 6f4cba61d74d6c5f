// A part of an axis replaced, of each batch from a position on. SIZE is the size of what is moved at once: an
// element, or several neighbours.

typedef Raw<SIZE>::Stored Stored;
typedef Index<WIDE>::Type I;

KERNEL_4(dst, update, positions, faults) {
    const Thread t = THREAD;
    for (I i = first_item<I>(t); i < (I)p.walk.count; i += all_items<I>(t)) {
        I at[4];
        locate<RANK, 4, I>(p.walk, i, at);
        const i64 longest = (i64)p.longest;
        i64 first = 0;
        if (p.has_positions != 0) first = load_index(positions, at[3], p.wide);
        if (p.circular != 0) {
            first %= longest;
            if (first < 0) first += longest;
        } else if (first < 0 || first > longest - (i64)p.count) {
            fault(faults, FAULT_INDEX, p.index);
            continue;
        }
        i64 place = first + (i64)at[2];
        if (place >= longest) place -= longest;
        ((DEVICE Stored*)dst)[at[1] + (I)place * (I)p.stride] = ((DEVICE const Stored*)update)[at[0]];
    }
}
