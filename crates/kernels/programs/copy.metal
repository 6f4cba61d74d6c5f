// Copies and conversions. FROM and TO are element types; equal ones stand for their size only.

typedef Element<FROM> Src;
typedef Element<TO> Dst;
typedef Index<WIDE>::Type I;

template <int N> FN void copy_pack(DEVICE u8* dst, DEVICE const u8* src, I to, I from) {
    Pack<Dst::Stored, N> out;
    if (N > 1 && (STEPS & 2) == 0) {
        const Dst::Stored one = convert<TO, FROM>(((DEVICE const Src::Stored*)src)[from]);
        for (int k = 0; k < N; ++k) out.e[k] = one;
    } else {
        const Pack<Src::Stored, N> in =
            *(DEVICE const Pack<Src::Stored, N>*)((DEVICE const Src::Stored*)src + from);
        for (int k = 0; k < N; ++k) out.e[k] = convert<TO, FROM>(in.e[k]);
    }
    *(DEVICE Pack<Dst::Stored, N>*)((DEVICE Dst::Stored*)dst + to) = out;
}

KERNEL_2(dst, src) {
    const Thread t = THREAD;
    for (I i = first_item<I>(t); i < (I)p.walk.count; i += all_items<I>(t)) {
        I at[2];
        locate<RANK, 2, I>(p.walk, i, at);
        copy_pack<VECTOR>(dst, src, at[0], at[1]);
    }
    if (VECTOR > 1 && RANK == 1) {
        for (u32 i = first_item<u32>(t); i < p.tail; i += all_items<u32>(t)) {
            I at[2];
            locate_tail<2, I, VECTOR>(p.walk, i, STEPS, at);
            copy_pack<1>(dst, src, at[0], at[1]);
        }
    }
}
