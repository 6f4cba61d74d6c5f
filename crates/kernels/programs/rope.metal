// Rotary embedding. A thread has a pair, or an element that stays as it is: it reads both before it writes, so that
// the output may lie where the input does.

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Value V;

// Where a row begins in operand `k`.
template <typename Q> FN I row_at(IN_PARAMS Q& p, u32 k, I a, I b, I c) {
    return (I)p.offset[k] + a * (I)p.stride[k][0] + b * (I)p.stride[k][1] + c * (I)p.stride[k][2];
}

KERNEL_6(dst, src, cosines, sines, positions, faults) {
    const Thread t = THREAD;
    const I count = (I)(p.rows * p.units);
    for (I i = first_item<I>(t); i < count; i += all_items<I>(t)) {
        const I row = i / (I)p.units, unit = i - row * (I)p.units;
        const I item = row / (I)p.length, place = row - item * (I)p.length;
        const I batch = item / (I)p.heads, head = item - batch * (I)p.heads;
        const I to = row_at(p, 0, batch, head, place), from = row_at(p, 1, batch, head, place);
        const I pairs = (I)p.pairs;
        if (unit >= pairs) {
            const I d = unit + pairs;
            store<DTYPE>(dst, to + d * (I)p.stride[0][3], load<DTYPE>(src, from + d * (I)p.stride[1][3]));
            continue;
        }
        i64 line = 0;
        if (p.has_positions != 0) {
            line = load_index(positions, p.offset[4] + batch * p.stride[4][0] + place * p.stride[4][1], p.wide);
            if (line < 0 || line >= (i64)p.most) {
                fault(faults, FAULT_INDEX, p.index);
                continue;
            }
        }
        const V c = load<DTYPE>(cosines, row_at(p, 2, batch, place, (I)line) + unit * (I)p.stride[2][3]);
        const V s = load<DTYPE>(sines, row_at(p, 3, batch, place, (I)line) + unit * (I)p.stride[3][3]);
        const I first = p.interleaved != 0 ? 2 * unit : unit;
        const I second = p.interleaved != 0 ? first + 1 : first + pairs;
        const V x = load<DTYPE>(src, from + first * (I)p.stride[1][3]);
        const V y = load<DTYPE>(src, from + second * (I)p.stride[1][3]);
        store<DTYPE>(dst, to + first * (I)p.stride[0][3], x * c - y * s);
        store<DTYPE>(dst, to + second * (I)p.stride[0][3], y * c + x * s);
    }
}
