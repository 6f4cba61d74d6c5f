// Fourier transforms by their definition, with a thread for each output. The numbers of a transform may be
// multiplied with a window; where MIRRORED, only the first half of them is there, and the others mirror it.

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Value V;

KERNEL_4(dst, src, window, roots) {
    const Thread t = THREAD;
    const I length = (I)p.length, outputs = (I)p.outputs;
    const I count = (I)p.lines.count * outputs;
    const V sign = p.inverse != 0 ? (V)1 : (V)-1;
    for (I item = first_item<I>(t); item < count; item += all_items<I>(t)) {
        const I line = item / outputs, k = item - line * outputs;
        I at[2];
        locate<RANK, 2, I>(p.lines, line, at);
        V re = 0, im = 0;
        I root = 0;
        for (I i = 0; i < length; ++i) {
#if MIRRORED
            const bool mirror = i >= (I)p.inputs;
            const I from = at[1] + (mirror ? length - i : i) * (I)p.src_step;
            const V x = load<DTYPE>(src, from);
            // A number that is its own mirror image is real.
            const bool real = i == 0 || 2 * i == length;
            const V part = real ? (V)0 : load<DTYPE>(src, from + (I)p.src_part);
            const V y = mirror ? -part : part;
#else
            const I from = at[1] + i * (I)p.src_step;
            V x = load<DTYPE>(src, from);
            V y = p.complex_input != 0 ? load<DTYPE>(src, from + (I)p.src_part) : (V)0;
            if (p.has_window != 0) {
                const V factor = load<DTYPE>(window, (I)p.window_offset + i * (I)p.window_step);
                x *= factor;
                y *= factor;
            }
#endif
            const V c = ((DEVICE const V*)roots)[2 * root], s = sign * ((DEVICE const V*)roots)[2 * root + 1];
            re += x * c - y * s;
            im += x * s + y * c;
            root += k;
            if (root >= length) root -= length;
        }
        const V share = p.inverse != 0 ? (V)1 / (V)length : (V)1;
        const I to = at[0] + k * (I)p.dst_step;
        store<DTYPE>(dst, to, re * share);
        if (p.complex_output != 0) store<DTYPE>(dst, to + (I)p.dst_part, im * share);
    }
}
