// 8-bit weights of a recurrent layer as numbers, row by row: (weight - zero) * scale.

typedef Element<DTYPE>::Value V;

KERNEL_4(dst, weight, scale, zero) {
    const Thread t = THREAD;
    const u64 count = p.directions * p.rows * p.depth;
    for (u64 i = first_item<u64>(t); i < count; i += all_items<u64>(t)) {
        const u64 k = i % p.depth, row = i / p.depth % p.rows, direction = i / p.depth / p.rows;
        const u64 at = p.offset[0] + direction * p.stride[0][0] + row * p.stride[0][1] + k * p.stride[0][2];
        V value = (V)load<BYTES>(weight, at);
        if (p.has_zero != 0) {
            value -= (V)load<BYTES>(zero, p.offset[2] + direction * p.stride[2][0] + row * p.stride[2][1]);
        }
        value *= load<DTYPE>(scale, p.offset[1] + direction * p.stride[1][0] + row * p.stride[1][1]);
        store<DTYPE>(dst, i, value);
    }
}
