// Indices that name places of an operand.
struct Tuple {
    u64 size[8];
    u64 stride[8];
    u64 step;
    u32 count;
    u32 wide;
};

FN i64 load_index(DEVICE const u8* indices, u64 at, u32 wide) {
    return wide != 0 ? ((DEVICE const i64*)indices)[at] : (i64)((DEVICE const i32*)indices)[at];
}

// Adds what the tuple at `at` names to a position; false where an index is outside its axis. Negative
// ones count from the end.
template <typename I>
FN bool tuple_position(IN_PARAMS Tuple& tuple, DEVICE const u8* indices, I at, IN_THREAD I& position) {
    for (u32 k = 0; k < tuple.count; ++k) {
        const i64 index = load_index(indices, (u64)at + k * tuple.step, tuple.wide);
        // What is still negative becomes too large.
        const u64 place = index < 0 ? (u64)index + tuple.size[k] : (u64)index;
        if (place >= tuple.size[k]) return false;
        position += (I)(place * tuple.stride[k]);
    }
    return true;
}

// What is moved as it is, 16 bytes at most.
template <> struct Raw<16> { typedef Pack<u64, 2> Stored; };
// One element over and over, whose bytes are repeated to 8.
template <int S> struct RawFill {
    FN typename Raw<S>::Stored of(u64 bytes) { return (typename Raw<S>::Stored)bytes; }
};
template <> struct RawFill<16> {
    FN Pack<u64, 2> of(u64 bytes) {
        const Pack<u64, 2> both = {{bytes, bytes}};
        return both;
    }
};
