// Kernels of this backend alone.
#include <metal_stdlib>
using namespace metal;

struct Copy {
    ulong bytes;
    uint to, from;
};

// Bytes from one buffer to another, from offsets that a binding cannot have.
[[max_total_threads_per_threadgroup(256)]]
kernel void ms_copy_bytes(device uchar* target [[buffer(0)]], device const uchar* source [[buffer(1)]], constant Copy& p [[buffer(2)]],
                          uint3 group [[threadgroup_position_in_grid]], uint3 groups [[threadgroups_per_grid]],
                          uint index [[thread_index_in_threadgroup]], uint3 count [[threads_per_threadgroup]]) {
    device uchar* to = target + p.to;
    device const uchar* from = source + p.from;
    for (ulong i = (ulong)group.x * count.x + index; i < p.bytes; i += (ulong)groups.x * count.x) to[i] = from[i];
}

// The same for 16 bytes at a time, which both places are aligned to. The rest is copied byte by byte.
[[max_total_threads_per_threadgroup(256)]]
kernel void ms_copy_vectors(device uchar* target [[buffer(0)]], device const uchar* source [[buffer(1)]], constant Copy& p [[buffer(2)]],
                            uint3 group [[threadgroup_position_in_grid]], uint3 groups [[threadgroups_per_grid]],
                            uint index [[thread_index_in_threadgroup]], uint3 count [[threads_per_threadgroup]]) {
    const ulong vectors = p.bytes / 16, own = (ulong)group.x * count.x + index, all = (ulong)groups.x * count.x;
    device uint4* to = (device uint4*)target;
    device const uint4* from = (device const uint4*)source;
    for (ulong i = own; i < vectors; i += all) to[i] = from[i];
    const ulong rest = vectors * 16 + own;
    if (rest < p.bytes) target[rest] = source[rest];
}

[[max_total_threads_per_threadgroup(256)]]
kernel void ms_nothing(uint index [[thread_index_in_threadgroup]]) {}
