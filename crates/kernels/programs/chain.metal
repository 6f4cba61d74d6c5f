// Elementwise steps in one pass. What they do is written before this text, step by step: `chain` takes N elements
// of all inputs through them. Inputs that a chain does not have are given as dst.

KERNEL_9(dst, a, b, c, d, e, f, g, h) {
    const Thread t = THREAD;
#define APPLY(N) chain<N>(dst, a, b, c, d, e, f, g, h, at, p);
    FOR_ALL_ELEMENTS(9, APPLY)
#undef APPLY
}
