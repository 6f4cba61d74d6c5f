// Elements by index. SIZE is the size of what is moved at once: an element, or several neighbours.

typedef Raw<SIZE>::Stored Stored;
typedef Index<WIDE>::Type I;

KERNEL_4(dst, src, indices, faults) {
    const Thread t = THREAD;
    for (I i = first_item<I>(t); i < (I)p.walk.count; i += all_items<I>(t)) {
        I at[3];
        locate<RANK, 3, I>(p.walk, i, at);
        I from = at[1];
        Stored value = Stored();
        if (tuple_position<I>(p.tuple, indices, at[2], from)) {
            value = ((DEVICE const Stored*)src)[from];
        } else {
            fault(faults, FAULT_INDEX, p.index);
        }
        ((DEVICE Stored*)dst)[at[0]] = value;
    }
}
