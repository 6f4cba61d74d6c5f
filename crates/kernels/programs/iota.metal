// Numbers in a row. The walk has the output and the index along the axis.

typedef Index<WIDE>::Type I;
typedef Element<TYPE>::Stored Stored;

#if TYPE == F64
FN Stored number(IN_PARAMS Params& p, u64 index) {
    return exact_add(f64_of(p.start), exact_mul((f64)index, f64_of(p.step)));
}
#elif TYPE < F64
FN Stored number(IN_PARAMS Params& p, u64 index) {
    const f32 start = f32_of((u32)p.start), step = f32_of((u32)p.step);
    return Element<TYPE>::put(exact_add(start, exact_mul((f32)index, step)));
}
#else
FN Stored number(IN_PARAMS Params& p, u64 index) { return (Stored)(p.start + index * p.step); }
#endif

KERNEL_1(dst) {
    const Thread t = THREAD;
    for (I i = first_item<I>(t); i < (I)p.walk.count; i += all_items<I>(t)) {
        I at[2];
        locate<RANK, 2, I>(p.walk, i, at);
        ((DEVICE Stored*)dst)[at[0]] = number(p, at[1]);
    }
}
