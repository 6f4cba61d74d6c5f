// Kernels of the probe. What kernels share (the prelude) stands before it.
struct ProbeParams {
    u32 count, what, value, unused;
};

FN f32 probe_contracted(f32 a, f32 b) { return a * a + b; }

// What a row asks for, of one or two numbers.
FN f32 probe_value(u32 what, f32 x, f32 y) {
    switch (what) {
    case 0: return x;
    case 1: return exact_add(x, y);
    case 2: return exact_mul(x, y);
    case 3: return x / y;
    case 4: return exact_add(exact_mul(x, x), y);
    case 5: return probe_contracted(x, y);
    case 6: return m_fma(x, x, y);
    case 7: return f32_from_f16(f16_from_f32(x));
    case 8: return is_nan(x - y) ? 1.0f : 0.0f;
    case 16: return m_exp(x);
    case 17: return m_log(x);
    case 18: return m_log2(x);
    case 19: return m_sqrt(x);
    case 20: return m_rsqrt(x);
    case 21: return m_sin(x);
    case 22: return m_cos(x);
    case 23: return m_tan(x);
    case 24: return m_asin(x);
    case 25: return m_acos(x);
    case 26: return m_atan(x);
    case 27: return m_sinh(x);
    case 28: return m_cosh(x);
    case 29: return m_tanh(x);
    case 30: return m_pow(x, y);
    case 31: return m_atan2(x, y);
    case 32: return m_erf(x);
    case 33: return m_expm1(x);
    case 34: return m_log1p(x);
    default: return 0.0f;
    }
}

[[max_total_threads_per_threadgroup(256)]]
kernel void probe_function(device const f32* x [[buffer(0)]], device const f32* y [[buffer(1)]], device f32* out [[buffer(2)]],
                           constant ProbeParams& p [[buffer(3)]], uint i [[thread_position_in_grid]]) {
    if (i < p.count) out[i] = probe_value(p.what, x[i], y[i]);
}

// Adds a value to each number: what comes twice, or in another order, shows.
[[max_total_threads_per_threadgroup(256)]]
kernel void probe_step(device u32* numbers [[buffer(0)]], constant ProbeParams& p [[buffer(1)]], uint i [[thread_position_in_grid]]) {
    if (i < p.count) numbers[i] = numbers[i] * 3u + p.value;
}

// As many additions to one number as there are threads.
[[max_total_threads_per_threadgroup(256)]]
kernel void probe_count(device u32* count [[buffer(0)]]) { atomic_add(count, 1u); }

[[max_total_threads_per_threadgroup(1024)]]
kernel void probe_lanes(device u32* out [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) { out[index] = simd_sum(1u); }

// What another lane has.
[[max_total_threads_per_threadgroup(256)]]
kernel void probe_shuffle(device u32* out [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    out[index] = simd_shuffle_xor(index, ushort(5));
}

// All the memory that a group can have.
[[max_total_threads_per_threadgroup(256)]]
kernel void probe_group_memory(device u32* out [[buffer(0)]], constant ProbeParams& p [[buffer(1)]],
                               uint index [[thread_index_in_threadgroup]]) {
    threadgroup u32 words[8192];
    for (uint i = index; i < 8192u; i += 256u) words[i] = i + p.value;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = index; i < 8192u; i += 256u) out[i] = words[8191u - i];
}

// Work that depends on what came before, so that nothing of it can be left out.
[[max_total_threads_per_threadgroup(256)]]
kernel void probe_busy(device u32* out [[buffer(0)]], constant ProbeParams& p [[buffer(1)]], uint i [[thread_position_in_grid]]) {
    u32 x = i + p.value;
    for (u32 n = 0; n < p.count; ++n) x = x * 1664525u + 1013904223u;
    out[i] = x;
}

// Ends when the host says so, or after rounds that no GPU has time for.
[[max_total_threads_per_threadgroup(256)]]
kernel void probe_endless(device u32* flags [[buffer(0)]], constant ProbeParams& p [[buffer(1)]], uint i [[thread_position_in_grid]]) {
    u32 x = i;
    for (u32 outer = 0; outer < p.count; ++outer) {
        for (u32 inner = 0; inner < p.value; ++inner) x = x * 1664525u + 1013904223u;
        if (atomic_load_explicit((device atomic_uint*)flags, memory_order_relaxed) != 0u) break;
    }
    if (i == 0u) flags[1] = x;
}
