// Threads that work together, and the note they leave when data is impossible.
template <typename I> FN I first_item(Thread t) { return (I)t.group * (I)t.count + (I)t.index; }
template <typename I> FN I all_items(Thread t) { return (I)t.groups * (I)t.count; }

// Joins are structs with `template <typename T> static T join(T, T)`; every lane gets the result, and
// all lanes of the simd group must take part.
struct Sum { template <typename T> FN T join(T a, T b) { return a + b; } };
struct Max { template <typename T> FN T join(T a, T b) { return m_max(a, b); } };
struct Min { template <typename T> FN T join(T a, T b) { return m_min(a, b); } };
template <typename J, typename T> FN T lanes_join(T value) {
    for (u32 mask = 16; mask > 0; mask >>= 1) value = J::join(value, lane_xor(value, mask));
    return value;
}
// Over the whole group, whose size is a multiple of 32. `scratch` has room for 32 and is free to be used
// again when this returns; the order of joining is always the same.
template <typename J, typename T> FN T group_join(Thread t, T value, T identity, IN_SHARED T* scratch) {
    value = lanes_join<J>(value);
    if (t.count <= 32) return value;
    if (t.lane == 0) scratch[t.simd] = value;
    group_barrier();
    value = t.lane < t.count / 32 ? scratch[t.lane] : identity;
    value = lanes_join<J>(value);
    group_barrier();
    return value;
}

// Fault records: see `fault.rs`. `index` comes from the params.
#define FAULT_INDEX 1
FN void fault(DEVICE u8* faults, u32 code, u32 index) {
    atomic_cas((DEVICE u32*)faults + 1, 0, code << 16 | (index + 1));
}
