// Padding and cropping. SIZE is the size of what is moved at once. MODE: 0 one value, 1 the edge, 2 the
// mirror image without the edge, 3 the elements again.

typedef Raw<SIZE>::Stored Stored;
typedef Index<WIDE>::Type I;

// The coordinate in the input, or below 0 for the value.
FN i64 source_of(i64 place, i64 kept) {
    if (place >= 0 && place < kept) return place;
    if (MODE == 0) return -1;
    if (MODE == 1) return place < 0 ? 0 : kept - 1;
    const i64 period = MODE == 3 ? kept : 2 * (kept - 1);
    if (period == 0) return 0;
    i64 turn = place % period;
    if (turn < 0) turn += period;
    return MODE == 2 && turn >= kept ? period - turn : turn;
}

KERNEL_2(dst, src) {
    const Thread t = THREAD;
    const Stored filler = RawFill<SIZE>::of(p.value);
    for (I i = first_item<I>(t); i < (I)p.walk.count; i += all_items<I>(t)) {
        I rest = i, to = (I)p.walk.offset[0], from = (I)p.walk.offset[1];
        bool inside = true;
        for (int axis = 0; axis < RANK; ++axis) {
            const I size = (I)p.walk.shape[axis];
            const I next = rest / size;
            const I at = rest - next * size;
            rest = next;
            to += at * (I)p.walk.stride[0][axis];
            const i64 place = source_of((i64)at - p.lead[axis], p.kept[axis]);
            inside = inside && place >= 0;
            from += (I)place * (I)p.walk.stride[1][axis];
        }
        Stored value = filler;
        if (inside) value = ((DEVICE const Stored*)src)[from];
        ((DEVICE Stored*)dst)[to] = value;
    }
}
