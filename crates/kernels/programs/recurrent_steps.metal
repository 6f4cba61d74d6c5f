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

// What a gate makes of its sum. GENERAL is 0 where activations are the usual ones, which `usual` names by their
// numbers in `activation`.
#define RELU 0
#define TANH 1
#define SIGMOID 2
FN V activation(u32 kind, V x, V a, V b) {
    if (kind == RELU) return activate<ACT_RELU>(x, a, b);
    if (kind == TANH) return m_tanh(x);
    if (kind == SIGMOID) return sigmoid(x);
    if (kind == 3) return a * x + b;
    if (kind == 4) return x < (V)0 ? a * x : x;
    if (kind == 5) return x < a ? (V)0 : x;
    if (kind == 6) return a * m_tanh(b * x);
    if (kind == 7) return m_min(m_max(a * x + b, (V)0), (V)1);
    if (kind == 8) return x < (V)0 ? a * m_expm1(x) : x;
    if (kind == 9) return x / ((V)1 + m_abs(x));
    return (x > (V)0 ? x : (V)0) + m_log1p(m_exp(-m_abs(x)));
}
// Activation `which` of a direction; `limit` says whether its argument is limited.
FN V through(IN_PARAMS Params& p, u64 direction, u32 which, u32 usual, bool limit, V x) {
    if (!GENERAL) {
        if (usual == SIGMOID) return sigmoid(x);
        return usual == TANH ? m_tanh(x) : activate<ACT_RELU>(x, (V)0, (V)0);
    }
    if (limit && p.has_clip != 0) x = m_min(m_max(x, (V)-p.clip), (V)p.clip);
    return activation(p.kind[direction][which], x, (V)p.alpha[direction][which], (V)p.beta[direction][which]);
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
                        update[unit] = through(p, direction, 0, SIGMOID, true, input[unit] + sum[0]);
                        behind[unit] = through(p, direction, 0, SIGMOID, true, input[p.hidden + unit] + sum[1]) * before[unit];
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
                        const V fresh = through(p, direction, 1, TANH, true, input[2 * p.hidden + unit] + sum[2]);
                        h = ((V)1 - update[unit]) * fresh + update[unit] * before[unit];
                    }
#else
                    products<0, GATES>(p, t, weight, bias, direction, unit, before, sum);
                    if (t.lane == 0) {
#if CELL == LSTM
                        V in_sum = input[unit] + sum[0], out_sum = input[p.hidden + unit] + sum[1];
                        V forget_sum = input[2 * p.hidden + unit] + sum[2];
                        DEVICE const V* seen = (DEVICE const V*)states + (5 * count + direction * 3 * p.hidden + unit);
                        const bool looks = GENERAL && p.has_peepholes != 0;
                        if (looks) in_sum += seen[0] * cell[unit];
                        if (looks) forget_sum += seen[2 * p.hidden] * cell[unit];
                        const V in = through(p, direction, 0, SIGMOID, true, in_sum);
                        V forget = (V)1 - in;
                        if (!GENERAL || p.input_forget == 0) forget = through(p, direction, 0, SIGMOID, true, forget_sum);
                        const V fresh = through(p, direction, 1, TANH, true, input[3 * p.hidden + unit] + sum[3]);
                        const V c = forget * cell[unit] + in * fresh;
                        cell[unit] = c;
                        if (looks) out_sum += seen[p.hidden] * c;
                        const V out = through(p, direction, 0, SIGMOID, true, out_sum);
                        h = out * through(p, direction, 2, TANH, false, c);
#elif CELL == GRU_LINEAR
                        const V z = through(p, direction, 0, SIGMOID, true, input[unit] + sum[0]);
                        const V r = through(p, direction, 0, SIGMOID, true, input[p.hidden + unit] + sum[1]);
                        const V fresh = through(p, direction, 1, TANH, true, input[2 * p.hidden + unit] + r * sum[2]);
                        h = ((V)1 - z) * fresh + z * before[unit];
#elif CELL == RNN_TANH
                        h = through(p, direction, 0, TANH, true, input[unit] + sum[0]);
#else
                        h = through(p, direction, 0, RELU, true, input[unit] + sum[0]);
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
