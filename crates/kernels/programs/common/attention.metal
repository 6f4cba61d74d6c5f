// What the programs of attention share.
#define MASK_SEEN 1
#define MASK_ADDED 2

// Where a head begins in operand `k`.
template <typename I, typename Q> FN I head_at(IN_PARAMS Q& p, u32 k, I batch, I head) {
    return (I)p.offset[k] + batch * (I)p.stride[k][0] + head * (I)p.stride[k][1];
}

// How many keys a batch has. LENGTHS is 1 where lengths are given as i32, and 2 where as i64.
template <int LENGTHS, typename I, typename Q> FN I key_count(IN_PARAMS Q& p, DEVICE const u8* lengths, I batch) {
    const I keys = (I)p.keys;
    if (LENGTHS == 0) return keys;
    const i64 given = (i64)load<LENGTHS == 2 ? I64 : I32>(lengths, (I)p.offset[5] + batch * (I)p.stride[5][0]);
    return given < 0 ? 0 : given < (i64)keys ? (I)given : keys;
}

// What is added to the bounds of a batch that has so many keys.
template <int LENGTHS, typename I, typename Q> FN i64 window_shift(IN_PARAMS Q& p, I keys) {
    return LENGTHS != 0 && p.from_end != 0 ? (i64)keys - (i64)p.queries : 0;
}

// Where the keys end that a query sees.
template <typename I> FN I keys_end(I query, I keys, i64 upper) {
    const i64 last = (i64)query + upper;
    return last < 0 ? 0 : last < (i64)keys ? (I)last + 1 : keys;
}

// Where they begin. LEFT says whether that is not always at the first.
template <int LEFT, typename I> FN I keys_begin(I query, I keys, i64 lower) {
    const i64 first = (i64)query + lower;
    return LEFT == 0 || first < 0 ? 0 : first < (i64)keys ? (I)first : keys;
}

// A score that is scaled and, where CAPPED says so, limited softly.
template <int CAPPED, typename V> FN V scaled_score(V score, V scale, V limit) {
    return CAPPED ? limit * m_tanh(score * scale / limit) : score * scale;
}

// A score after the mask has had its say, whose element is `at`; nothing at all where the key is not seen.
template <int MASK, int D, typename I>
FN typename Element<D>::Value masked_score(typename Element<D>::Value score, bool visible, DEVICE const u8* mask, I at) {
    typedef typename Element<D>::Value V;
    if (MASK == MASK_SEEN && visible) visible = mask[at] != 0;
    if (MASK == MASK_ADDED && visible) score += load<D>(mask, at);
    return visible ? score : (V)-INFINITE;
}

// exp(x - top) of an x that is not above it; nothing where nothing was seen at all.
template <typename V> FN V share_below(V x, V top) { return m_exp(x - (top == (V)-INFINITE ? (V)0 : top)); }
