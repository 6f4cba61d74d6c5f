// Attention with the softmax taken on the way. A group has QUERIES queries of one head; its simd groups share
// the keys, 32 at a time: a lane has a key for the scores and then columns of the values for their sum. What
// the simd groups have found is joined at the end. Nobody waits for anybody in between. Keys and values are
// asked for before what comes first is done.

#define AHEAD 8
// Elements of a key that are asked for at once: most keys are no longer. Those that need many instructions each
// are asked for in smaller steps, which are not written out so many times.
#define KEY_AHEAD (VECTOR > 1 && HELD ? 64 : 16)
#define COLUMNS (32 * CHUNKS)
#define MAX_HELD 128
#if HELD
#define KEY_STEPS UNROLL
#else
#define KEY_STEPS KEEP_LOOP
#endif
// f64 takes twice the memory.
#define MAX_SIMDS (DTYPE == F64 ? 4 : 8)

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Stored S;
typedef Element<DTYPE>::Value V;
typedef Pack<S, 4> P;
typedef Pack<V, 4> W;

// The four of 32 keys from `j0` on of which a lane fetches a quarter: neighbours in memory by neighbours.
FN void find_keys(DEVICE const S* IN_THREAD* rows, DEVICE const S* key, IN_PARAMS Params& p, u32 lane, I j0) {
    UNROLL for (u32 i = 0; i < 4; ++i) {
        const I j = j0 + lane / 4 + 8 * i;
        rows[i] = key + (j < (I)p.keys ? j : (I)p.keys - 1) * (I)p.stride[2][2];
    }
}

// KEY_AHEAD elements of those keys, from element `d0` on; 0 beyond the size.
FN void fetch_keys(IN_THREAD P* part, DEVICE const S* IN_THREAD* rows, IN_PARAMS Params& p, u32 lane, I d0) {
    const I size = (I)p.size;
    if (VECTOR > 1 && d0 + KEY_AHEAD <= size) {
        UNROLL for (u32 i = 0; i < KEY_AHEAD / 4; ++i) {
            part[i] = *(DEVICE const P*)(rows[i % 4] + (d0 + i / 4 * STAGE_DEPTH + lane % 4 * 4));
        }
    } else {
        UNROLL for (u32 i = 0; i < KEY_AHEAD / 4; ++i) {
            const I d = d0 + i / 4 * STAGE_DEPTH + lane % 4 * 4;
            UNROLL for (u32 e = 0; e < 4; ++e) part[i].e[e] = 0;
            if (VECTOR > 1) {
                if (d < size) part[i] = *(DEVICE const P*)(rows[i % 4] + d);
            } else {
                UNROLL for (u32 e = 0; e < 4; ++e) {
                    if (d + e < size) part[i].e[e] = rows[i % 4][(d + e) * (I)p.stride[2][3]];
                }
            }
        }
    }
}

// A lane's columns of the next values; 0 beyond those that are left.
FN void fetch_values(IN_THREAD V* x, DEVICE const S* IN_THREAD* columns, I first, I row, I left) {
    UNROLL for (u32 u = 0; u < AHEAD; ++u) {
        UNROLL for (u32 c = 0; c < CHUNKS; ++c) {
            x[u * CHUNKS + c] = 0;
            if (u < left) x[u * CHUNKS + c] = Element<DTYPE>::get(columns[c][(first + u) * row]);
        }
    }
}

KERNEL_6(dst, query, key, value, mask, lengths) {
    const Thread t = THREAD;
    SHARED W held[HELD ? QUERIES * MAX_HELD / 4 : 1];
    SHARED W stages[MAX_SIMDS * 32 * STAGE_PITCH];
    SHARED V joined[QUERIES * COLUMNS];
    SHARED V tops[MAX_SIMDS * QUERIES];
    SHARED V sums[MAX_SIMDS * QUERIES];
    const I queries = (I)p.queries, size = (I)p.size, columns = (I)p.value_size;
    const I q0 = (I)t.group * QUERIES, c0 = (I)t.group_z * COLUMNS;
    const u32 simds = t.count / 32;
    // Of the simd group alone: elements of its keys, and then what its queries have for them.
    IN_SHARED W* stage = stages + t.simd * 32 * STAGE_PITCH;
    IN_SHARED V* shares = (IN_SHARED V*)stage;
    for (I item = t.group_y; item < (I)p.items; item += t.groups_y) {
        const I batch = item / (I)p.heads, head = item - batch * (I)p.heads;
        const I key_head = head / (I)p.sharing;
        const I q_at = head_at(p, 1, batch, head);
        const I k_at = head_at(p, 2, batch, key_head), v_at = head_at(p, 3, batch, key_head);
        const I keys = key_count<LENGTHS>(p, lengths, batch);
        const i64 shift = window_shift<LENGTHS>(p, keys);
        I rows[QUERIES], seen[QUERIES], from[QUERIES];
        I most = 0, least = keys;
        V top[QUERIES], sum[QUERIES], acc[QUERIES][CHUNKS];
        UNROLL for (u32 q = 0; q < QUERIES; ++q) {
            rows[q] = q0 + q < queries ? q0 + q : queries - 1;
            seen[q] = keys_end(rows[q], keys, p.upper + shift);
            most = seen[q] > most ? seen[q] : most;
            from[q] = keys_begin<LEFT>(rows[q], keys, p.lower + shift);
            least = from[q] < least ? from[q] : least;
            top[q] = (V)-INFINITE;
            sum[q] = 0;
            UNROLL for (u32 c = 0; c < CHUNKS; ++c) acc[q][c] = 0;
        }
        // Columns beyond the last are the first again, and nobody stores them.
        DEVICE const S* columns_at[CHUNKS];
        UNROLL for (u32 c = 0; c < CHUNKS; ++c) {
            const I column = c0 + c * 32 + t.lane;
            columns_at[c] = (DEVICE const S*)value + (v_at + (column < columns ? column : 0) * (I)p.stride[3][3]);
        }
        DEVICE const S* keys_at[4];
        P part[KEY_AHEAD / 4];
        I j0 = least / 32 * 32 + t.simd * 32;
        if (j0 < most) {
            find_keys(keys_at, (DEVICE const S*)key + k_at, p, t.lane, j0);
            fetch_keys(part, keys_at, p, t.lane, 0);
        }
        if (HELD) {
            const u32 padded = ((u32)size + STAGE_DEPTH - 1) / STAGE_DEPTH * STAGE_DEPTH;
            for (u32 d = t.index; d < padded; d += t.count) {
                V x[QUERIES];
                UNROLL for (u32 q = 0; q < QUERIES; ++q) {
                    x[q] = 0;
                    if (d < (u32)size) x[q] = load<DTYPE>(query, q_at + rows[q] * (I)p.stride[1][2] + d * (I)p.stride[1][3]);
                }
                UNROLL for (u32 q = 0; q < QUERIES; ++q) ((IN_SHARED V*)held)[q * MAX_HELD + d] = x[q];
            }
            group_barrier();
        }
        while (j0 < most) {
            const I end = j0 + 32 < most ? j0 + 32 : most;
            V x[AHEAD * CHUNKS];
            fetch_values(x, columns_at, j0, (I)p.stride[3][2], end - j0);
            V score[QUERIES];
            UNROLL for (u32 q = 0; q < QUERIES; ++q) score[q] = 0;
            for (I d0 = 0; d0 < size; d0 += KEY_AHEAD) {
                if (d0 > 0) fetch_keys(part, keys_at, p, t.lane, d0);
                UNROLL for (u32 u = 0; u < KEY_AHEAD / STAGE_DEPTH; ++u) {
                    const I first = d0 + u * STAGE_DEPTH;
                    if (first < size) {
                        simd_group_barrier();
                        UNROLL for (u32 i = 0; i < 4; ++i) {
                            W values;
                            UNROLL for (u32 e = 0; e < 4; ++e) values.e[e] = Element<DTYPE>::get(part[4 * u + i].e[e]);
                            stage[(t.lane / 4 + 8 * i) * STAGE_PITCH + t.lane % 4] = values;
                        }
                        simd_group_barrier();
                        KEY_STEPS for (u32 k = 0; k < STAGE_DEPTH / 4; ++k) {
                            const W z = stage[t.lane * STAGE_PITCH + k];
                            UNROLL for (u32 q = 0; q < QUERIES; ++q) {
                                W y;
                                if (HELD) {
                                    y = held[q * (MAX_HELD / 4) + (u32)first / 4 + k];
                                } else {
                                    UNROLL for (u32 e = 0; e < 4; ++e) {
                                        const I d = first + k * 4 + e;
                                        y.e[e] = 0;
                                        if (d < size) y.e[e] = load<DTYPE>(query, q_at + rows[q] * (I)p.stride[1][2] + d * (I)p.stride[1][3]);
                                    }
                                }
                                UNROLL for (u32 e = 0; e < 4; ++e) score[q] += z.e[e] * y.e[e];
                            }
                        }
                    }
                }
            }
            const I j = j0 + t.lane;
            const I next = j0 + simds * 32;
            if (next < most) {
                find_keys(keys_at, (DEVICE const S*)key + k_at, p, t.lane, next);
                fetch_keys(part, keys_at, p, t.lane, 0);
            }
            simd_group_barrier();
            UNROLL for (u32 q = 0; q < QUERIES; ++q) {
                const I m_at = head_at(p, 4, batch, head) + rows[q] * (I)p.stride[4][2] + j * (I)p.stride[4][3];
                score[q] = scaled_score<CAPPED>(score[q], (V)p.scale, (V)p.softcap);
                score[q] = masked_score<MASK, DTYPE>(score[q], j < seen[q] && (!LEFT || j >= from[q]), mask, m_at);
                const V higher = m_max(top[q], lanes_join<Max>(score[q]));
                const V less = share_below(top[q], higher);
                top[q] = higher;
                score[q] = share_below(score[q], higher);
                sum[q] = sum[q] * less + score[q];
                UNROLL for (u32 c = 0; c < CHUNKS; ++c) acc[q][c] *= less;
                shares[q * 32 + t.lane] = score[q];
            }
            simd_group_barrier();
            for (u32 first = 0; first < 32 && j0 + first < end; first += AHEAD) {
                V y[AHEAD * CHUNKS];
                const I after = j0 + first + AHEAD;
                fetch_values(y, columns_at, after, (I)p.stride[3][2], after < end ? end - after : 0);
                UNROLL for (u32 u = 0; u < AHEAD; u += 4) {
                    UNROLL for (u32 q = 0; q < QUERIES; ++q) {
                        const W share = stage[(q * 32 + first + u) / 4];
                        UNROLL for (u32 e = 0; e < 4; ++e) {
                            UNROLL for (u32 c = 0; c < CHUNKS; ++c) acc[q][c] += share.e[e] * x[(u + e) * CHUNKS + c];
                        }
                    }
                }
                UNROLL for (u32 i = 0; i < AHEAD * CHUNKS; ++i) x[i] = y[i];
            }
            j0 = next;
        }
        UNROLL for (u32 q = 0; q < QUERIES; ++q) {
            const V total = lanes_join<Sum>(sum[q]);
            if (t.lane == 0) {
                tops[t.simd * QUERIES + q] = top[q];
                sums[t.simd * QUERIES + q] = total;
            }
        }
        group_barrier();
        UNROLL for (u32 q = 0; q < QUERIES; ++q) {
            V highest = (V)-INFINITE, total = 0;
            for (u32 simd = 0; simd < simds; ++simd) highest = m_max(highest, tops[simd * QUERIES + q]);
            for (u32 simd = 0; simd < simds; ++simd) {
                total += sums[simd * QUERIES + q] * share_below(tops[simd * QUERIES + q], highest);
            }
            const V share = total == (V)0 ? (V)0 : share_below(top[q], highest) / total;
            UNROLL for (u32 c = 0; c < CHUNKS; ++c) acc[q][c] *= share;
        }
        for (u32 simd = 0; simd < simds; ++simd) {
            if (t.simd == simd) {
                UNROLL for (u32 q = 0; q < QUERIES; ++q) {
                    UNROLL for (u32 c = 0; c < CHUNKS; ++c) {
                        const u32 at = q * COLUMNS + c * 32 + t.lane;
                        joined[at] = simd == 0 ? acc[q][c] : joined[at] + acc[q][c];
                    }
                }
            }
            group_barrier();
        }
        for (u32 i = t.index; i < QUERIES * COLUMNS; i += t.count) {
            const I row = q0 + i / COLUMNS, column = c0 + i % COLUMNS;
            if (row < queries && column < columns) {
                const I at = head_at(p, 0, batch, head) + row * (I)p.stride[0][2] + column * (I)p.stride[0][3];
                store<DTYPE>(dst, at, joined[i]);
            }
        }
        group_barrier();
    }
}
#undef KEY_STEPS
