// The states after the last step of each sequence, and zeros beyond its end.

typedef Element<DTYPE>::Value V;

KERNEL_5(sequence, hidden, cell, states, sizes) {
    const Thread t = THREAD;
    const u64 count = p.directions * p.batch * p.hidden;
    DEVICE const V* state = (DEVICE const V*)states;
    for (u64 i = first_item<u64>(t); i < count; i += all_items<u64>(t)) {
        const u64 unit = i % p.hidden, row = i / p.hidden % p.batch, direction = i / p.hidden / p.batch;
        const u64 length = ((DEVICE const u32*)sizes)[row];
        store<DTYPE>(hidden, p.offset[1] + direction * p.stride[1][0] + row * p.stride[1][1] + unit * p.stride[1][2],
                     state[(length & 1) * count + i]);
        if (p.has_cell != 0) {
            store<DTYPE>(cell, p.offset[2] + direction * p.stride[2][0] + row * p.stride[2][1] + unit * p.stride[2][2],
                         state[2 * count + i]);
        }
        for (u64 at = length; at < p.time; ++at) {
            store<DTYPE>(sequence, p.offset[0] + at * p.stride[0][0] + direction * p.stride[0][1]
                + row * p.stride[0][2] + unit * p.stride[0][3], (V)0);
        }
    }
}
