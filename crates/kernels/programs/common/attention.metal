// What the programs of attention share.
#define MASK_SEEN 1
#define MASK_ADDED 2

// Where a head begins in operand `k`.
template <typename I, typename Q> FN I head_at(IN_PARAMS Q& p, u32 k, I batch, I head) {
    return (I)p.offset[k] + batch * (I)p.stride[k][0] + head * (I)p.stride[k][1];
}

// How many keys a query sees.
template <typename I> FN I keys_seen(I query, I keys, i64 shift) {
    const i64 last = (i64)query + shift;
    return last < 0 ? 0 : last < (i64)keys ? (I)last + 1 : keys;
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
