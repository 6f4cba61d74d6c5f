// Attention for many queries, with the softmax taken on the way. A group has QUERIES queries of one head and goes
// over the keys in tiles of 16 · KEYS, which lie in group memory, and so do the values after them in the same
// place. A simd group has 2 · ROWS queries of its own. Lane 2 · x + y has those of y, y + 2, … and of a tile the
// keys x, x + 16, …, and then WIDTH columns of the values in each of PARTS parts: two lanes side by side want the
// same key and any two beyond them the same query, which is how memory serves half a simd group at once. What
// comes next is asked for before what is there is multiplied.

#define SIMDS (THREADS / 32)
#define ROWS (QUERIES / (2 * SIMDS))
#define TILE (16 * KEYS)
#define WIDTH (COLUMNS % 64 == 0 ? 4 : 2)
#define PARTS (COLUMNS / 16 / WIDTH)
// In packs of four. One more where several rows are read at once, so that they meet different banks.
#define KEY_PITCH (SIZE / 4 + 1)
#define VALUE_PITCH (COLUMNS / 4)
#define SHARE_PITCH (TILE / 4 + 1)
#define STAGED (TILE * (KEY_PITCH > VALUE_PITCH ? KEY_PITCH : VALUE_PITCH))
// Packs that a thread fetches of rows of so many elements.
#define PACKS(rows, elements) (((rows) * ((elements) / 4) + THREADS - 1) / THREADS)

typedef Index<WIDE>::Type I;
typedef Element<DTYPE>::Stored S;
typedef Element<DTYPE>::Value V;
typedef Pack<S, 4> P;
typedef Pack<V, 4> W;
typedef Pack<V, WIDTH> C;

// Where pack `i` of a thread lies in rows of LENGTH elements, counted from its first one: how many rows below, and
// how many packs from the left. Where threads fill whole rows, the first is a constant and the second always the same.
template <int LENGTH> FN u32 rows_below(u32 index, u32 i) {
    if (THREADS % (LENGTH / 4) == 0) return i * (THREADS / (LENGTH / 4));
    return (index + i * THREADS) / (LENGTH / 4) - index / (LENGTH / 4);
}
template <int LENGTH> FN u32 packs_left(u32 index, u32 i) {
    return THREADS % (LENGTH / 4) == 0 ? index % (LENGTH / 4) : (index + i * THREADS) % (LENGTH / 4);
}

// Whether HEIGHT rows have that pack: nothing to ask but of the last.
template <int HEIGHT, int LENGTH> FN bool has_pack(u32 index, u32 i) {
    return (i + 1) * THREADS <= HEIGHT * (LENGTH / 4) || index + i * THREADS < HEIGHT * (LENGTH / 4);
}

// A thread's packs of the next HEIGHT rows, `rows` being where its first one is; 0 beyond those that are `left`, and
// from element `length` on.
template <int HEIGHT, int LENGTH>
FN void fetch(IN_THREAD P* part, u32 index, DEVICE const S* rows, I row, I step, I left, I length) {
    left = left > index / (LENGTH / 4) ? left - index / (LENGTH / 4) : 0;
    UNROLL for (u32 i = 0; i < PACKS(HEIGHT, LENGTH); ++i) {
        const u32 below = rows_below<LENGTH>(index, i), d = packs_left<LENGTH>(index, i) * 4;
        UNROLL for (u32 e = 0; e < 4; ++e) part[i].e[e] = 0;
        if (below < left && has_pack<HEIGHT, LENGTH>(index, i)) {
            if (VECTOR > 1) {
                if (d < length) part[i] = *(DEVICE const P*)((rows + d) + (u64)row * below);
            } else {
                UNROLL for (u32 e = 0; e < 4; ++e) {
                    if (d + e < length) part[i].e[e] = rows[(u64)row * below + (d + e) * step];
                }
            }
        }
    }
}

// Puts what was fetched where the group sees it.
template <int HEIGHT, int LENGTH, int PITCH>
FN void put(IN_SHARED W* tile, u32 index, IN_THREAD const P* part) {
    tile += index / (LENGTH / 4) * PITCH;
    UNROLL for (u32 i = 0; i < PACKS(HEIGHT, LENGTH); ++i) {
        W values;
        UNROLL for (u32 e = 0; e < 4; ++e) values.e[e] = Element<DTYPE>::get(part[i].e[e]);
        if (has_pack<HEIGHT, LENGTH>(index, i)) {
            (tile + packs_left<LENGTH>(index, i))[rows_below<LENGTH>(index, i) * PITCH] = values;
        }
    }
}

// score[r][c] is the product of query 2 · r of `queries` and key 16 · c of `keys`.
FN void multiply(IN_THREAD V (*score)[KEYS], IN_SHARED const W* queries, IN_SHARED const W* keys) {
    UNROLL for (u32 r = 0; r < ROWS; ++r) {
        UNROLL for (u32 c = 0; c < KEYS; ++c) score[r][c] = 0;
    }
    // Half of the depth is written out: long enough to hide what it takes to read, and compiled in half the time.
    KEEP_LOOP for (u32 turn = 0; turn < 2; ++turn) {
        UNROLL for (u32 k = 0; k < SIZE / 8; ++k) {
            W y[ROWS], z[KEYS];
            UNROLL for (u32 r = 0; r < ROWS; ++r) y[r] = queries[2 * r * KEY_PITCH + k];
            UNROLL for (u32 c = 0; c < KEYS; ++c) z[c] = keys[16 * c * KEY_PITCH + k];
            UNROLL for (u32 e = 0; e < 4; ++e) {
                UNROLL for (u32 r = 0; r < ROWS; ++r) {
                    UNROLL for (u32 c = 0; c < KEYS; ++c) score[r][c] += y[r].e[e] * z[c].e[e];
                }
            }
        }
        queries += SIZE / 8;
        keys += SIZE / 8;
    }
}

// Adds four values times their shares, which query 2 · r has at `shares`, to the sums of all queries.
FN void add_values(IN_THREAD V (*sums)[COLUMNS / 16], IN_SHARED const W* shares, IN_SHARED const C* values) {
    W share[ROWS];
    UNROLL for (u32 r = 0; r < ROWS; ++r) share[r] = shares[2 * r * SHARE_PITCH];
    UNROLL for (u32 e = 0; e < 4; ++e) {
        UNROLL for (u32 c = 0; c < PARTS; ++c) {
            const C z = values[e * (COLUMNS / WIDTH) + 16 * c];
            UNROLL for (u32 r = 0; r < ROWS; ++r) {
                UNROLL for (u32 i = 0; i < WIDTH; ++i) sums[r][c * WIDTH + i] += share[r].e[e] * z.e[i];
            }
        }
    }
}

// 128 registers for a thread hold all that the loop needs. Left alone, the compiler takes more.
CROWDED_KERNEL_6(512 / THREADS, dst, query, key, value, mask, lengths) {
    const Thread t = THREAD;
    SHARED W held[QUERIES * KEY_PITCH];
    SHARED W stage[STAGED];
    SHARED W shares[QUERIES * SHARE_PITCH];
    const I queries = (I)p.queries, size = (I)p.size, columns = (I)p.value_size;
    // The last queries first: where not all see the same keys, those have most to do.
    const I q0 = (I)(t.groups - 1 - t.group) * QUERIES;
    const I after = q0 + QUERIES < queries ? q0 + QUERIES : queries;
    const u32 x = t.lane / 2, own = t.simd * 2 * ROWS + t.lane % 2;
    IN_SHARED V* own_shares = (IN_SHARED V*)shares + (own * (4 * SHARE_PITCH) + x);
    I rows[ROWS], seen[ROWS], from[ROWS];
    UNROLL for (u32 r = 0; r < ROWS; ++r) {
        rows[r] = q0 + own + 2 * r < queries ? q0 + own + 2 * r : queries - 1;
    }
    for (I item = t.group_y; item < (I)p.items; item += t.groups_y) {
        const I batch = item / (I)p.heads, head = item - batch * (I)p.heads;
        const I key_head = head / (I)p.sharing;
        const I keys = key_count<LENGTHS>(p, lengths, batch);
        const i64 shift = window_shift<LENGTHS>(p, keys);
        const I most = keys_end(after - 1, keys, p.upper + shift);
        // The first queries see the first keys.
        const I least = keys_begin<LEFT>(q0, most, p.lower + shift) / TILE * TILE;
        UNROLL for (u32 r = 0; r < ROWS; ++r) {
            seen[r] = keys_end(rows[r], keys, p.upper + shift);
            from[r] = keys_begin<LEFT>(rows[r], keys, p.lower + shift);
        }
        // Where a thread begins to fetch.
        const I query_row = (I)p.stride[1][2], key_row = (I)p.stride[2][2], value_row = (I)p.stride[3][2];
        DEVICE const S* queries_at = (DEVICE const S*)query
            + (head_at(p, 1, batch, head) + (q0 + t.index / (SIZE / 4)) * query_row);
        DEVICE const S* keys_at = (DEVICE const S*)key
            + (head_at(p, 2, batch, key_head) + (least + t.index / (SIZE / 4)) * key_row);
        DEVICE const S* values_at = (DEVICE const S*)value
            + (head_at(p, 3, batch, key_head) + (least + t.index / (COLUMNS / 4)) * value_row);
        V top[ROWS], sum[ROWS], sums[ROWS][COLUMNS / 16];
        UNROLL for (u32 r = 0; r < ROWS; ++r) {
            top[r] = (V)-INFINITE;
            sum[r] = 0;
            UNROLL for (u32 c = 0; c < COLUMNS / 16; ++c) sums[r][c] = 0;
        }
        P part[PACKS(TILE, SIZE)];
        fetch<TILE, SIZE>(part, t.index, keys_at, key_row, (I)p.stride[2][3], most - least, size);
        {
            P first[PACKS(QUERIES, SIZE)];
            fetch<QUERIES, SIZE>(first, t.index, queries_at, query_row, (I)p.stride[1][3], after - q0, size);
            put<QUERIES, SIZE, KEY_PITCH>(held, t.index, first);
        }
        for (I j0 = least; j0 < most; j0 += TILE) {
            group_barrier();
            put<TILE, SIZE, KEY_PITCH>(stage, t.index, part);
            group_barrier();
            P next[PACKS(TILE, COLUMNS)];
            fetch<TILE, COLUMNS>(next, t.index, values_at, value_row, (I)p.stride[3][3], most - j0, columns);
            values_at += (u64)TILE * value_row;
            V score[ROWS][KEYS];
            multiply(score, held + own * KEY_PITCH, stage + x * KEY_PITCH);
            group_barrier();
            put<TILE, COLUMNS, VALUE_PITCH>(stage, t.index, next);
            UNROLL for (u32 r = 0; r < ROWS; ++r) {
                V highest = (V)-INFINITE;
                UNROLL for (u32 c = 0; c < KEYS; ++c) {
                    const I j = j0 + x + 16 * c;
                    const I m_at = head_at(p, 4, batch, head) + rows[r] * (I)p.stride[4][2] + j * (I)p.stride[4][3];
                    score[r][c] = scaled_score<CAPPED>(score[r][c], (V)p.scale, (V)p.softcap);
                    score[r][c] = masked_score<MASK, DTYPE>(score[r][c], j < seen[r] && (!LEFT || j >= from[r]), mask, m_at);
                    highest = m_max(highest, score[r][c]);
                }
                highest = m_max(top[r], lanes_join_every<Max, 2>(highest));
                const V less = share_below(top[r], highest);
                top[r] = highest;
                sum[r] *= less;
                UNROLL for (u32 c = 0; c < COLUMNS / 16; ++c) sums[r][c] *= less;
                UNROLL for (u32 c = 0; c < KEYS; ++c) {
                    const V share = share_below(score[r][c], highest);
                    sum[r] += share;
                    own_shares[r * (8 * SHARE_PITCH) + 16 * c] = share;
                }
            }
            group_barrier();
            keys_at += (u64)TILE * key_row;
            const I left = j0 + TILE < most ? most - j0 - TILE : 0;
            fetch<TILE, SIZE>(part, t.index, keys_at, key_row, (I)p.stride[2][3], left, size);
            IN_SHARED const W* shares_at = shares + own * SHARE_PITCH;
            IN_SHARED const C* columns_at = (IN_SHARED const C*)stage + x;
            // Half of the last tile may lie beyond the last key.
            KEEP_LOOP for (u32 j = 0; j < TILE && j0 + j < most; j += TILE / 2) {
                UNROLL for (u32 u = 0; u < TILE / 2; u += 4) {
                    add_values(sums, shares_at + u / 4, columns_at + u * (COLUMNS / WIDTH));
                }
                shares_at += TILE / 8;
                columns_at += TILE / 2 * (COLUMNS / WIDTH);
            }
        }
        UNROLL for (u32 r = 0; r < ROWS; ++r) {
            const V total = lanes_join_every<Sum, 2>(sum[r]);
            const V share = total == (V)0 ? (V)0 : (V)1 / total;
            const I row = q0 + own + 2 * r;
            const I row_at = head_at(p, 0, batch, head) + row * (I)p.stride[0][2];
            UNROLL for (u32 c = 0; c < PARTS; ++c) {
                const I column = (16 * c + x) * WIDTH;
                if (VECTOR > 1) {
                    Pack<S, WIDTH> result;
                    UNROLL for (u32 i = 0; i < WIDTH; ++i) result.e[i] = Element<DTYPE>::put(sums[r][c * WIDTH + i] * share);
                    if (row < queries && column < columns) {
                        *(DEVICE Pack<S, WIDTH>*)((DEVICE S*)dst + (row_at + column)) = result;
                    }
                } else {
                    UNROLL for (u32 i = 0; i < WIDTH; ++i) {
                        if (row < queries && column + i < columns) {
                            store<DTYPE>(dst, row_at + (column + i) * (I)p.stride[0][3], sums[r][c * WIDTH + i] * share);
                        }
                    }
                }
            }
        }
    }
}
