// Elements in the opposite order. SIZE is the size of what is moved at once. With LENGTHS, only so many elements
// of `axis` are reversed as the length says that the third operand of the walk leads to.

typedef Raw<SIZE>::Stored Stored;
typedef Index<WIDE>::Type I;

KERNEL_4(dst, src, lengths, faults) {
    const Thread t = THREAD;
    for (I i = first_item<I>(t); i < (I)p.walk.count; i += all_items<I>(t)) {
        I rest = i, to = (I)p.walk.offset[0], from = (I)p.walk.offset[1];
        I by = (I)p.walk.offset[2], here = 0;
        for (u32 axis = 0; axis < RANK; ++axis) {
            const I size = (I)p.walk.shape[axis];
            const I next = rest / size;
            I at = rest - next * size;
            rest = next;
            to += at * (I)p.walk.stride[0][axis];
            by += at * (I)p.walk.stride[2][axis];
            if (LENGTHS && axis == p.axis) here = at;
            if ((p.reversed >> axis & 1) != 0) at = size - 1 - at;
            from += at * (I)p.walk.stride[1][axis];
        }
        if (LENGTHS) {
            const i64 length = load_index(lengths, by, p.wide_lengths);
            if ((u64)length > p.size) fault(faults, FAULT_INDEX, p.index);
            // Unsigned numbers may pass below zero on the way.
            else if ((u64)here < (u64)length) from += ((I)length - 1 - 2 * here) * (I)p.step;
        }
        ((DEVICE Stored*)dst)[to] = ((DEVICE const Stored*)src)[from];
    }
}
