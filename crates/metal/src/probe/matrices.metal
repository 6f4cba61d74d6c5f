// A text of its own: a device without such matrices is not to see it.
#include <metal_stdlib>
using namespace metal;

// Factors of 16 bits, sums of 32.
[[max_total_threads_per_threadgroup(32)]]
kernel void probe_matrices(device const half* a [[buffer(0)]], device const half* b [[buffer(1)]], device float* out [[buffer(2)]]) {
    simdgroup_half8x8 left, right;
    simdgroup_float8x8 sums = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    simdgroup_load(left, a, 8);
    simdgroup_load(right, b, 8);
    simdgroup_multiply_accumulate(sums, left, right, sums);
    simdgroup_store(sums, out, 8);
}
