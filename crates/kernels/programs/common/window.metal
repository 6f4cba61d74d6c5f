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

// What one step along the depth of a convolution, which is channels and taps, means: distances in input and
// weight, and the tap's place.
template <int SPATIAL, typename I> struct WindowStep {
    I src, weight;
    I tap[SPATIAL];
};
template <int SPATIAL, typename I, typename P> FN WindowStep<SPATIAL, I> window_step(IN_PARAMS P& p, I k) {
    WindowStep<SPATIAL, I> step;
    step.src = 0;
    step.weight = 0;
    UNROLL for (int axis = SPATIAL - 1; axis >= 0; --axis) {
        const I next = k / (I)p.taps[axis];
        const I tap = k - next * (I)p.taps[axis];
        step.tap[axis] = tap * (I)p.dilation[axis];
        step.src += step.tap[axis] * (I)p.src_stride[axis + 2];
        step.weight += tap * (I)p.weight_stride[axis + 2];
        k = next;
    }
    step.src += k * (I)p.src_stride[1];
    step.weight += k * (I)p.weight_stride[1];
    return step;
}
