// Weights of BITS bits in blocks that have a scale and a zero point each, of type D. ZERO says what zero points
// are: 0 the middle of the range, 1 packed as weights are, 2 numbers. `p` has the places of all of them.
template <int BITS> FN u32 few_bits(u32 word, u32 at) { return word >> at * BITS & (0xffu >> (8 - BITS)); }

template <int D, typename I, typename P> FN f32 block_scale(DEVICE const u8* scales, IN_PARAMS P& p, I n, I block) {
    return load<D>(scales, (I)p.scales[0] + n * (I)p.scales[1] + block * (I)p.scales[2]);
}
template <int D, int BITS, int ZERO, typename I, typename P>
FN f32 block_zero(DEVICE const u8* zeros, IN_PARAMS P& p, I n, I block) {
    if (ZERO == 0) return (f32)(1u << (BITS - 1));
    const I row = (I)p.zeros[0] + n * (I)p.zeros[1];
    if (ZERO == 1) {
        const u32 byte = zeros[row + block / (8 / BITS) * (I)p.zeros[2]];
        return (f32)few_bits<BITS>(byte, (u32)(block % (8 / BITS)));
    }
    return load<D>(zeros, row + block * (I)p.zeros[2]);
}
// The byte of a column that holds a weight.
template <int BITS, typename I, typename P> FN I block_byte(IN_PARAMS P& p, I n, I k) {
    return (I)p.weights + ((n * (I)p.blocks << p.shift) + k) / (8 / BITS);
}
