// Convolutions with a thread for each output: those with few channels in a group, and, where TRANSPOSED,
// those of the other direction, where an output gathers from the inputs whose windows reach it. DST of i32
// is the product of 8-bit integers less their zero points, as in `conv`.

typedef Index<WIDE>::Type I;
typedef Element<DST>::Value V;

KERNEL_5(dst, src, weight, bias, residual) {
    const Thread t = THREAD;
    const I count = (I)p.positions * (I)p.outputs * (I)p.groups;
    I taps = 1;
    UNROLL for (int axis = 0; axis < SPATIAL; ++axis) taps *= (I)p.taps[axis];
#if DST == I32
    const V src_zero = p.has_bias != 0 ? load<SRC>(bias, (I)p.offset[3]) : 0;
#endif
    for (I item = first_item<I>(t); item < count; item += all_items<I>(t)) {
        // Neighbours are places of one channel: the order of the output.
        I place[SPATIAL];
        const I outer = window_place<SPATIAL, I>(p.out_size, item, place);
        const I channels = (I)p.outputs * (I)p.groups;
        const I batch = outer / channels, channel = outer - batch * channels;
        const I group = channel / (I)p.outputs, output = channel - group * (I)p.outputs;
        const I first = group * (I)p.channels;
        const I src_at = (I)p.offset[1] + batch * (I)p.src_stride[0] + first * (I)p.src_stride[1];
#if TRANSPOSED
        const I weight_at = (I)p.offset[2] + first * (I)p.weight_stride[0] + output * (I)p.weight_stride[1];
        const I weight_step = (I)p.weight_stride[0];
#else
        const I weight_at = (I)p.offset[2] + channel * (I)p.weight_stride[0];
        const I weight_step = (I)p.weight_stride[1];
#endif
#if DST == I32
        const V weight_zero = p.has_residual != 0 ? load<WEIGHT>(residual, (I)p.offset[4] + channel * (I)p.residual_stride[0]) : 0;
#endif
        V sum = 0;
        for (I tap = 0; tap < taps; ++tap) {
            I rest = tap, from = src_at, by = weight_at;
            bool inside = true;
            UNROLL for (int axis = SPATIAL - 1; axis >= 0; --axis) {
                const I next = rest / (I)p.taps[axis];
                const I here = rest - next * (I)p.taps[axis];
                rest = next;
                by += here * (I)p.weight_stride[axis + 2];
#if TRANSPOSED
                const I reach = place[axis] + (I)p.pad[axis], back = here * (I)p.dilation[axis];
                const I far = reach - back;
                const I at = far / (I)p.step[axis];
                inside = inside && reach >= back && at * (I)p.step[axis] == far && at < (I)p.in_size[axis];
#else
                const I at = place[axis] * (I)p.step[axis] + here * (I)p.dilation[axis] - (I)p.pad[axis];
                inside = inside && at < (I)p.in_size[axis];
#endif
                from += at * (I)p.src_stride[axis + 2];
            }
            if (inside) {
                for (I c = 0; c < (I)p.channels; ++c) {
#if DST == I32
                    sum += (load<SRC>(src, from + c * (I)p.src_stride[1]) - src_zero)
                        * (load<WEIGHT>(weight, by + c * weight_step) - weight_zero);
#else
                    sum += load<SRC>(src, from + c * (I)p.src_stride[1]) * load<WEIGHT>(weight, by + c * weight_step);
#endif
                }
            }
        }
#if DST != I32
        sum *= (V)p.scale;
        if (p.has_bias != 0) sum += load<DST>(bias, (I)p.offset[3] + channel * (I)p.bias_stride);
        if (p.has_residual != 0) {
            sum += load<DST>(residual, window_at<SPATIAL, I>(p.offset[4], p.residual_stride, batch, channel, place));
        }
        sum = activate_any(p.act, sum, (V)p.first, (V)p.second);
#endif
        store<DST>(dst, window_at<SPATIAL, I>(p.offset[0], p.dst_stride, batch, channel, place), sum);
    }
}
