// The states before the first step, and the lengths of the sequences. States are, one after another,
// hidden for even and for odd steps, cell, and two that a GRU needs within a step. Behind them lie the peepholes.

typedef Element<DTYPE>::Value V;

KERNEL_6(states, sizes, hidden, cell, lengths, peepholes) {
    const Thread t = THREAD;
    const u64 count = p.directions * p.batch * p.hidden;
    DEVICE V* state = (DEVICE V*)states;
    for (u64 i = first_item<u64>(t); i < count; i += all_items<u64>(t)) {
        const u64 unit = i % p.hidden, row = i / p.hidden % p.batch, direction = i / p.hidden / p.batch;
        V h = 0, c = 0;
        if (p.has_hidden != 0) {
            h = load<DTYPE>(hidden, p.offset[0] + direction * p.stride[0][0] + row * p.stride[0][1] + unit * p.stride[0][2]);
        }
        if (p.has_cell != 0) {
            c = load<DTYPE>(cell, p.offset[1] + direction * p.stride[1][0] + row * p.stride[1][1] + unit * p.stride[1][2]);
        }
        state[i] = h;
        state[2 * count + i] = c;
    }
    const u64 seen = p.has_peepholes != 0 ? p.directions * 3 * p.hidden : 0;
    for (u64 i = first_item<u64>(t); i < seen; i += all_items<u64>(t)) {
        const u64 unit = i % (3 * p.hidden), direction = i / (3 * p.hidden);
        state[5 * count + i] = load<DTYPE>(peepholes, p.peepholes_offset + direction * p.peepholes[0] + unit * p.peepholes[1]);
    }
    for (u64 row = first_item<u64>(t); row < p.batch; row += all_items<u64>(t)) {
        i64 length = (i64)p.time;
        if (p.has_lengths != 0) {
            const i64 given = (i64)load<LENGTHS>(lengths, p.offset[2] + row * p.stride[2][0]);
            length = given < 0 ? 0 : given < length ? given : length;
        }
        ((DEVICE u32*)sizes)[row] = (u32)length;
    }
}
