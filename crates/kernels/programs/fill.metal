// One value everywhere. SIZE is the size of an element: what it means does not matter here.

typedef Raw<SIZE>::Stored Stored;
typedef Index<WIDE>::Type I;

KERNEL_1(dst) {
    const Thread t = THREAD;
    const Stored value = (Stored)p.value;
    Pack<Stored, VECTOR> pack;
    for (int k = 0; k < VECTOR; ++k) pack.e[k] = value;
    for (I i = first_item<I>(t); i < (I)p.walk.count; i += all_items<I>(t)) {
        I at[1];
        locate<RANK, 1, I>(p.walk, i, at);
        *(DEVICE Pack<Stored, VECTOR>*)((DEVICE Stored*)dst + at[0]) = pack;
    }
    if (VECTOR > 1 && RANK == 1) {
        const I start = (I)p.walk.offset[0] + (I)p.walk.count * VECTOR;
        for (u32 i = first_item<u32>(t); i < p.tail; i += all_items<u32>(t)) {
            ((DEVICE Stored*)dst)[start + i] = value;
        }
    }
}
