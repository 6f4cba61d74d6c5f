// Steps of a recurrent layer, whose products of the input are known. A simd group has one unit of the hidden
// state at a time. Either a group does many steps for its rows, all units of them (`groups` is 1 then), or a
// launch does one step, or one half of it where all units must be known before the second half.

#define LSTM 0
#define GRU 1
#define GRU_LINEAR 2
#define RNN_TANH 3
#define GATES (CELL == LSTM ? 4 : CELL == GRU || CELL == GRU_LINEAR ? 3 : 1)

typedef Element<DTYPE>::Value V;

// The product of rows `unit` of gates `first .. last` with a vector, and its bias, for every lane.
template <int FIRST, int LAST>
FN void products(IN_PARAMS Params& p, Thread t, DEVICE const u8* weight, DEVICE const u8* bias, u64 direction,
                 u64 unit, DEVICE const V* vector, IN_THREAD V* sum) {
    for (int gate = FIRST; gate < LAST; ++gate) sum[gate] = 0;
    for (u64 k = t.lane; k < p.hidden; k += 32) {
        const V x = vector[k];
        UNROLL for (int gate = FIRST; gate < LAST; ++gate) {
            const u64 at = p.weight_offset + direction * p.weight[0] + (gate * p.hidden + unit) * p.weight[1] + k * p.weight[2];
            sum[gate] += load<DTYPE>(weight, at) * x;
        }
    }
    UNROLL for (int gate = FIRST; gate < LAST; ++gate) {
        sum[gate] = lanes_join<Sum>(sum[gate]);
        if (p.has_bias != 0) {
            sum[gate] += load<DTYPE>(bias, p.bias_offset + direction * p.bias[0] + p.bias[1] + (gate * p.hidden + unit) * p.bias[2]);
        }
    }
}

KERNEL_6(sequence, states, sizes, inputs, weight, bias) {
    const Thread t = THREAD;
    const u64 rows = p.directions * p.batch, count = rows * p.hidden;
    const u64 simds = (u64)t.groups * (t.count / 32), own = (u64)t.group * (t.count / 32) + t.simd;
    for (u64 item = t.group_y; item < rows; item += t.groups_y) {
        const u64 direction = item / p.batch, row = item % p.batch;
        const u64 length = ((DEVICE const u32*)sizes)[row];
        DEVICE V* first = (DEVICE V*)states + item * p.hidden;
        for (u64 step = p.first; step < p.first + p.steps; ++step) {
            const u64 at = (p.reverse >> direction & 1) != 0 ? length - 1 - step : step;
            DEVICE const V* before = first + (step & 1) * count;
            DEVICE V* after = first + ((step + 1) & 1) * count;
            DEVICE V* cell = first + 2 * count;
            DEVICE V* behind = first + 3 * count;
            DEVICE V* update = first + 4 * count;
            DEVICE const V* input = (DEVICE const V*)inputs + ((direction * p.time + at) * p.batch + row) * (GATES * p.hidden);
#if CELL == GRU
            if ((p.halves & 1) != 0) {
                for (u64 unit = own; step < length && unit < p.hidden; unit += simds) {
                    V sum[GATES];
                    products<0, 2>(p, t, weight, bias, direction, unit, before, sum);
                    if (t.lane == 0) {
                        update[unit] = sigmoid(input[unit] + sum[0]);
                        behind[unit] = sigmoid(input[p.hidden + unit] + sum[1]) * before[unit];
                    }
                }
                group_barrier();
            }
#endif
            if ((p.halves & 2) != 0) {
                for (u64 unit = own; step < length && unit < p.hidden; unit += simds) {
                    V sum[GATES];
                    V h = 0;
#if CELL == GRU
                    products<2, 3>(p, t, weight, bias, direction, unit, behind, sum);
                    if (t.lane == 0) {
                        const V fresh = m_tanh(input[2 * p.hidden + unit] + sum[2]);
                        h = ((V)1 - update[unit]) * fresh + update[unit] * before[unit];
                    }
#else
                    products<0, GATES>(p, t, weight, bias, direction, unit, before, sum);
                    if (t.lane == 0) {
#if CELL == LSTM
                        const V in = sigmoid(input[unit] + sum[0]), out = sigmoid(input[p.hidden + unit] + sum[1]);
                        const V forget = sigmoid(input[2 * p.hidden + unit] + sum[2]);
                        const V c = forget * cell[unit] + in * m_tanh(input[3 * p.hidden + unit] + sum[3]);
                        cell[unit] = c;
                        h = out * m_tanh(c);
#elif CELL == GRU_LINEAR
                        const V z = sigmoid(input[unit] + sum[0]), r = sigmoid(input[p.hidden + unit] + sum[1]);
                        h = ((V)1 - z) * m_tanh(input[2 * p.hidden + unit] + r * sum[2]) + z * before[unit];
#elif CELL == RNN_TANH
                        h = m_tanh(input[unit] + sum[0]);
#else
                        h = activate<ACT_RELU>(input[unit] + sum[0], (V)0, (V)0);
#endif
                    }
#endif
                    if (t.lane == 0) {
                        after[unit] = h;
                        store<DTYPE>(sequence, p.sequence_offset + at * p.sequence[0] + direction * p.sequence[1]
                            + row * p.sequence[2] + unit * p.sequence[3], h);
                    }
                }
                group_barrier();
            }
        }
    }
}
