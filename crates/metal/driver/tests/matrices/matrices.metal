#include <metal_stdlib>
using namespace metal;

#ifndef FACTOR
#define FACTOR float
#endif

// from: two matrices of 8 × 8 numbers. to: their product, plus 1, with sums of f32; in a larger matrix, at row 1 and column 2.
kernel void product(device const float* from [[buffer(0)]], device float* to [[buffer(1)]],
                    uint lane [[thread_index_in_simdgroup]]) {
    threadgroup FACTOR staged[2 * 8 * 12];
    for (uint i = lane; i < 64; i += 32) {
        // The left one lies transposed, and both in rows of 12 that begin with garbage.
        staged[i % 8 * 12 + i / 8 + 3] = (FACTOR)from[i];
        staged[96 + i / 8 * 12 + i % 8 + 3] = (FACTOR)from[64 + i];
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_matrix<FACTOR, 8, 8> left, right;
    simdgroup_load(left, staged + 3, 12, 0, true);
    simdgroup_load(right, staged, 12, ulong2(3, 8));
    simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
    simdgroup_multiply_accumulate(sum, left, right, sum);
    simdgroup_store(sum, to, 16, ulong2(2, 1));
}

// A scaled matrix, by a diagonal one; stored transposed.
kernel void diagonal(device const float* from [[buffer(0)]], device float* to [[buffer(1)]],
                     uint lane [[thread_index_in_simdgroup]]) {
    simdgroup_float8x8 matrix, result;
    simdgroup_load(matrix, from);
    simdgroup_multiply(result, matrix, simdgroup_float8x8(3.0f));
    simdgroup_store(result, to, 8, 0, true);
    simdgroup_multiply(result, make_diagonal_simdgroup_matrix<float, 8, 8>(2.0f), matrix);
    simdgroup_store(result, to + 64);
}

// What each lane has of a matrix.
kernel void elements(device const float* from [[buffer(0)]], device float* to [[buffer(1)]],
                     uint lane [[thread_index_in_simdgroup]]) {
    simdgroup_float8x8 matrix;
    simdgroup_load(matrix, from);
    to[2 * lane] = matrix.thread_elements()[0];
    to[2 * lane + 1] = matrix.thread_elements()[1];
    matrix.thread_elements()[0] = -1;
    simdgroup_store(matrix, to + 64);
}

// Loads what other lanes have written, without a barrier.
kernel void load_without_barrier(device const float* from [[buffer(0)]], device float* to [[buffer(1)]],
                                 uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float staged[64];
    // Each lane writes what the lane across loads.
    staged[63 - 2 * lane] = from[63 - 2 * lane];
    staged[62 - 2 * lane] = from[62 - 2 * lane];
    simdgroup_float8x8 matrix;
    simdgroup_load(matrix, staged);
    simdgroup_store(matrix, to);
}

// Reads what other lanes have stored, without a barrier.
kernel void store_without_barrier(device const float* from [[buffer(0)]], device float* to [[buffer(1)]],
                                  uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float staged[64];
    simdgroup_float8x8 matrix;
    simdgroup_load(matrix, from);
    simdgroup_store(matrix, staged);
    to[63 - 2 * lane] = staged[63 - 2 * lane];
    to[62 - 2 * lane] = staged[62 - 2 * lane];
}

// Writes over what other lanes may not have loaded yet.
kernel void overwrite_without_barrier(device const float* from [[buffer(0)]], device float* to [[buffer(1)]],
                                      uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float staged[64];
    staged[lane] = from[lane];
    staged[lane + 32] = from[lane + 32];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 matrix;
    simdgroup_load(matrix, staged);
    staged[63 - lane] = -1;
    staged[31 - lane] = -1;
    simdgroup_store(matrix, to);
}

// A SIMD group loads what another has written, without a barrier of the group.
kernel void group_without_barrier(device const float* from [[buffer(0)]], device float* to [[buffer(1)]],
                                  uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]) {
    threadgroup float staged[128];
    for (uint i = lane; i < 64; i += 32) staged[64 * (1 - simd) + i] = from[i];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 matrix;
    simdgroup_load(matrix, staged + 64 * simd);
    simdgroup_store(matrix, to + 64 * simd);
}

// Half of the lanes.
kernel void divergent_load(device const float* from [[buffer(0)]], device float* to [[buffer(1)]],
                           uint lane [[thread_index_in_simdgroup]]) {
    if (lane < 16) {
        simdgroup_float8x8 matrix;
        simdgroup_load(matrix, from);
        simdgroup_store(matrix, to);
    }
}
kernel void divergent_product(device const float* from [[buffer(0)]], device float* to [[buffer(1)]],
                              uint lane [[thread_index_in_simdgroup]]) {
    simdgroup_float8x8 matrix;
    simdgroup_load(matrix, from);
    if (from[lane] > 3) simdgroup_multiply(matrix, matrix, matrix);
    simdgroup_store(matrix, to);
}
