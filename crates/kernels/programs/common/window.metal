// Windows over up to three spatial axes. Places are unsigned and wrap around: one below zero is as far
// outside as one beyond the end.

// The batch and the spatial place of an output position, counted in row-major order.
template <int SPATIAL, typename I> FN I window_place(IN_PARAMS u64* sizes, I position, IN_THREAD I* place) {
    UNROLL for (int axis = SPATIAL - 1; axis >= 0; --axis) {
        const I next = position / (I)sizes[axis];
        place[axis] = position - next * (I)sizes[axis];
        position = next;
    }
    return position;
}

// Where an element of `[batch, channel, spatial…]` lies.
template <int SPATIAL, typename I>
FN I window_at(u64 offset, IN_PARAMS u64* stride, I batch, I channel, IN_THREAD const I* place) {
    I at = (I)offset + batch * (I)stride[0] + channel * (I)stride[1];
    UNROLL for (int axis = 0; axis < SPATIAL; ++axis) at += place[axis] * (I)stride[axis + 2];
    return at;
}
