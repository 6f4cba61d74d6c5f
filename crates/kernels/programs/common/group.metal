// Threads that work together, and the note they leave when data is impossible.
template <typename I> FN I first_item(Thread t) { return (I)t.group * (I)t.count + (I)t.index; }
template <typename I> FN I all_items(Thread t) { return (I)t.groups * (I)t.count; }

// Joins are structs with `template <typename T> static T join(T, T)`; every lane gets the result, and
// all lanes of the simd group must take part.
struct Sum { template <typename T> FN T join(T a, T b) { return a + b; } };
struct Max { template <typename T> FN T join(T a, T b) { return m_max(a, b); } };
struct Min { template <typename T> FN T join(T a, T b) { return m_min(a, b); } };
// Over every STEP-th lane, STEP being a power of two: lane i gets the result of the lanes i modulo STEP.
template <typename J, u32 STEP, typename T> FN T lanes_join_every(T value) {
    for (u32 mask = 16; mask >= STEP; mask >>= 1) value = J::join(value, lane_xor(value, mask));
    return value;
}
template <typename J, typename T> FN T lanes_join(T value) { return lanes_join_every<J, 1>(value); }
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

// The sum of what the threads before this one have, and in `total` that of all. `scratch` as for group_join.
template <typename T> FN T group_before(Thread t, T own, IN_SHARED T* scratch, IN_THREAD T& total) {
    T upto = own;
    for (u32 by = 1; by < 32; by <<= 1) {
        const T before = lane_up(upto, by);
        if (t.lane >= by) upto += before;
    }
    if (t.lane == 31) scratch[t.simd] = upto;
    group_barrier();
    T before = 0;
    total = 0;
    for (u32 simd = 0; simd < t.count / 32; ++simd) {
        if (simd == t.simd) before = total;
        total += scratch[simd];
    }
    group_barrier();
    return before + upto - own;
}

// Fault records: see `fault.rs`. `index` comes from the params.
#define FAULT_INDEX 1
#define FAULT_HEADER_WORDS 4
FN void fault(DEVICE u8* faults, u32 code, u32 index) {
    DEVICE u32* record = (DEVICE u32*)faults;
    atomic_cas(record + FAULT_HEADER_WORDS + index, 0, code);
    atomic_cas(record, 0, 1);
}

// States are structs with static `empty`, `join(a, b)` and `other(a, mask)`, which is that of the lane
// whose number differs in `mask`. Merged over a simd group, then over the group; every thread gets the
// result. `scratch` as for group_join.
template <typename S> FN S lanes_merge(S state) {
    for (u32 mask = 16; mask > 0; mask >>= 1) state = S::join(state, S::other(state, mask));
    return state;
}
template <typename S> FN S group_merge(Thread t, S state, IN_SHARED S* scratch) {
    state = lanes_merge(state);
    if (t.count <= 32) return state;
    if (t.lane == 0) scratch[t.simd] = state;
    group_barrier();
    if (t.lane < t.count / 32) state = scratch[t.lane]; else state = S::empty();
    state = lanes_merge(state);
    group_barrier();
    return state;
}

// A sum of exponentials, taken relative to the largest exponent so far.
template <typename T> struct Exponentials {
    T top, sum;
    FN Exponentials empty() {
        Exponentials s;
        s.top = -(T)INFINITE;
        s.sum = (T)0;
        return s;
    }
    FN Exponentials of(T x) {
        Exponentials s;
        s.top = x;
        s.sum = (T)1;
        return s;
    }
    // Once the top is infinite or NaN the sum means nothing.
    FN Exponentials join(Exponentials a, Exponentials b) {
        Exponentials s;
        s.top = m_max(a.top, b.top);
        if (s.top == -(T)INFINITE) s.sum = (T)0;
        else s.sum = a.sum * m_exp(a.top - s.top) + b.sum * m_exp(b.top - s.top);
        return s;
    }
    FN Exponentials other(Exponentials a, u32 mask) {
        Exponentials s;
        s.top = lane_xor(a.top, mask);
        s.sum = lane_xor(a.sum, mask);
        return s;
    }
};
// Adds one exponent, with one exponential.
template <typename T> FN Exponentials<T> add_exponent(Exponentials<T> s, T x) {
    if (x <= s.top) {
        if (x != -(T)INFINITE) s.sum += m_exp(x - s.top);
    } else {
        s.sum = s.sum * m_exp(s.top - x) + (T)1;
        s.top = x;
    }
    return s;
}
template <typename T> FN bool is_finite(T x) { return x - x == (T)0; }
