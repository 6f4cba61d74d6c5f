// Where the elements of several operands of one shape lie. Axes are listed from the innermost outwards.
template <int WIDE> struct Index { typedef u32 Type; };
template <> struct Index<1> { typedef u64 Type; };

template <int OPERANDS> struct Walk {
    u64 count;
    u64 shape[8];
    u64 offset[OPERANDS];
    u64 stride[OPERANDS][8];
};

// The position, in elements, of item `i` in every operand.
template <int RANK, int OPERANDS, typename I>
FN void locate(IN_PARAMS Walk<OPERANDS>& walk, I i, IN_THREAD I* at) {
    for (int k = 0; k < OPERANDS; ++k) at[k] = (I)walk.offset[k];
    for (int axis = 0; axis < RANK - 1; ++axis) {
        const I size = (I)walk.shape[axis];
        const I next = i / size;
        const I here = i - next * size;
        for (int k = 0; k < OPERANDS; ++k) at[k] += here * (I)walk.stride[k][axis];
        i = next;
    }
    for (int k = 0; k < OPERANDS; ++k) at[k] += i * (I)walk.stride[k][RANK - 1];
}

// The same for element `i` of those behind the last vector of a walk of rank 1; `steps` says which
// operands advance.
template <int OPERANDS, typename I, int VECTOR>
FN void locate_tail(IN_PARAMS Walk<OPERANDS>& walk, u32 i, int steps, IN_THREAD I* at) {
    for (int k = 0; k < OPERANDS; ++k) {
        at[k] = (I)walk.offset[k];
        if ((steps >> k & 1) != 0) at[k] += (I)walk.count * VECTOR + i;
    }
}
