#include <metal_stdlib>
using namespace metal;

struct Params {
    uint count;
    float factor;
};

kernel void scale(device const float* from [[buffer(0)]], device float* to [[buffer(1)]], constant Params& p [[buffer(2)]],
                  uint3 group [[threadgroup_position_in_grid]], uint3 size [[threads_per_threadgroup]],
                  uint index [[thread_index_in_threadgroup]]) {
    const uint i = group.x * size.x + index;
    if (i < p.count) to[i] = from[i] * p.factor;
}

// One group: group memory, barriers and lanes.
[[max_total_threads_per_threadgroup(256)]]
kernel void total(device const float* from [[buffer(0)]], device float* to [[buffer(1)]], constant Params& p [[buffer(2)]],
                  uint index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                  uint simd [[simdgroup_index_in_threadgroup]], uint3 size [[threads_per_threadgroup]]) {
    threadgroup float sums[32];
    float sum = 0;
    for (uint i = index; i < p.count; i += size.x) sum += from[i];
    for (ushort n = 16; n > 0; n /= 2) sum += simd_shuffle_down(sum, n);
    if (lane == 0) sums[simd] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (index != 0) return;
    for (uint i = 1; i < size.x / 32; ++i) sum += sums[i];
    to[0] = sum;
}

// Reads group memory that nobody wrote.
kernel void unwritten(device uint* to [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    threadgroup uint words[32];
    if (to[0] == 12345) words[index] = 1;
    to[index] = words[index];
}

kernel void divergent(device float* to [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    if (index < 32) threadgroup_barrier(mem_flags::mem_threadgroup);
    to[index] = 1;
}

kernel void large(device float* to [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    threadgroup float words[10000];
    words[index] = 1;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    to[index] = words[index];
}
