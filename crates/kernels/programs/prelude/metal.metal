// The words of the Metal Shading Language. Compile without fast math.
#include <metal_stdlib>
using namespace metal;
typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float f32;
#define HAS_F64 0
#define IS_METAL 1

#define FN static inline
#define DEVICE device
#define SHARED threadgroup
#define IN_SHARED threadgroup
#define IN_PARAMS constant const
#define IN_THREAD thread
#define TABLE constant const
#define IN_TABLE constant const
#define UNROLL _Pragma("clang loop unroll(full)")
#define KEEP_LOOP _Pragma("clang loop unroll(disable)")

struct Thread {
    u32 group, group_y, group_z;
    u32 groups, groups_y, groups_z;
    u32 index, count, lane, simd;
};
static inline Thread this_thread(uint3 group, uint3 groups, uint index, uint3 count) {
    Thread t = {group.x, group.y, group.z, groups.x, groups.y, groups.z, index, count.x, index & 31u, index >> 5};
    return t;
}
#define THREAD this_thread(metal_group, metal_groups, metal_index, metal_count)
#define EARLY_THREAD THREAD
#define after_the_one_before()
#define KERNEL_TAIL(n) constant Params& p [[buffer(n)]], \
    uint3 metal_group [[threadgroup_position_in_grid]], uint3 metal_groups [[threadgroups_per_grid]], \
    uint metal_index [[thread_index_in_threadgroup]], uint3 metal_count [[threads_per_threadgroup]]
#define ARGUMENT(name, n) device u8* name [[buffer(n)]]
#define KERNEL_1(a) kernel void ENTRY(ARGUMENT(a, 0), KERNEL_TAIL(1))
#define KERNEL_2(a, b) kernel void ENTRY(ARGUMENT(a, 0), ARGUMENT(b, 1), KERNEL_TAIL(2))
#define KERNEL_3(a, b, c) kernel void ENTRY(ARGUMENT(a, 0), ARGUMENT(b, 1), ARGUMENT(c, 2), KERNEL_TAIL(3))
#define KERNEL_4(a, b, c, d) kernel void ENTRY(ARGUMENT(a, 0), ARGUMENT(b, 1), ARGUMENT(c, 2), \
    ARGUMENT(d, 3), KERNEL_TAIL(4))
#define KERNEL_5(a, b, c, d, e) kernel void ENTRY(ARGUMENT(a, 0), ARGUMENT(b, 1), ARGUMENT(c, 2), \
    ARGUMENT(d, 3), ARGUMENT(e, 4), KERNEL_TAIL(5))
#define KERNEL_6(a, b, c, d, e, f) kernel void ENTRY(ARGUMENT(a, 0), ARGUMENT(b, 1), ARGUMENT(c, 2), \
    ARGUMENT(d, 3), ARGUMENT(e, 4), ARGUMENT(f, 5), KERNEL_TAIL(6))
#define KERNEL_7(a, b, c, d, e, f, g) kernel void ENTRY(ARGUMENT(a, 0), ARGUMENT(b, 1), ARGUMENT(c, 2), \
    ARGUMENT(d, 3), ARGUMENT(e, 4), ARGUMENT(f, 5), ARGUMENT(g, 6), KERNEL_TAIL(7))
#define KERNEL_8(a, b, c, d, e, f, g, h) kernel void ENTRY(ARGUMENT(a, 0), ARGUMENT(b, 1), ARGUMENT(c, 2), \
    ARGUMENT(d, 3), ARGUMENT(e, 4), ARGUMENT(f, 5), ARGUMENT(g, 6), ARGUMENT(h, 7), KERNEL_TAIL(8))
#define KERNEL_9(a, b, c, d, e, f, g, h, i) kernel void ENTRY(ARGUMENT(a, 0), ARGUMENT(b, 1), ARGUMENT(c, 2), \
    ARGUMENT(d, 3), ARGUMENT(e, 4), ARGUMENT(f, 5), ARGUMENT(g, 6), ARGUMENT(h, 7), ARGUMENT(i, 8), KERNEL_TAIL(9))
#define CROWDED_KERNEL_6(groups, a, b, c, d, e, f) KERNEL_6(a, b, c, d, e, f)

#define group_barrier() threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device)
#define simd_group_barrier() simdgroup_barrier(mem_flags::mem_threadgroup)
// Shuffles know 32 bits at most.
#define LANE(name, shuffle) \
    FN f32 name(f32 v, u32 n) { return shuffle(v, (ushort)n); } \
    FN i32 name(i32 v, u32 n) { return shuffle(v, (ushort)n); } \
    FN u32 name(u32 v, u32 n) { return shuffle(v, (ushort)n); } \
    FN u64 name(u64 v, u32 n) { return (u64)name((u32)v, n) | (u64)name((u32)(v >> 32), n) << 32; } \
    FN i64 name(i64 v, u32 n) { return (i64)name((u64)v, n); }
LANE(lane_xor, simd_shuffle_xor)
LANE(lane_down, simd_shuffle_down)
LANE(lane_up, simd_shuffle_up)
LANE(lane_read, simd_shuffle)

FN u32 atomic_cas(device u32* at, u32 expected, u32 desired) {
    u32 seen = expected;
    while (!atomic_compare_exchange_weak_explicit((device atomic_uint*)at, &seen, desired,
                                                  memory_order_relaxed, memory_order_relaxed)
           && seen == expected) {}
    return seen;
}
FN u32 atomic_add(device u32* at, u32 value) {
    return atomic_fetch_add_explicit((device atomic_uint*)at, value, memory_order_relaxed);
}

FN u32 bits_of(f32 x) { return as_type<u32>(x); }
FN f32 f32_of(u32 bits) { return as_type<f32>(bits); }
FN f32 f32_from_f16(u16 h) { return (f32)as_type<half>(h); }
FN u16 f16_from_f32(f32 x) { return as_type<u16>((half)x); }
FN u32 count_leading_zeros(u64 x) { return (u32)clz(x); }
FN f32 exact_add(f32 a, f32 b) { return a + b; }
FN f32 exact_mul(f32 a, f32 b) { return a * b; }

#define MATH_1(name, of_f32) FN f32 name(f32 x) { return of_f32(x); }
MATH_1(m_exp, precise::exp) MATH_1(m_log, precise::log) MATH_1(m_log2, precise::log2)
MATH_1(m_sqrt, precise::sqrt) MATH_1(m_rsqrt, precise::rsqrt) MATH_1(m_sin, precise::sin)
MATH_1(m_cos, precise::cos) MATH_1(m_tan, precise::tan) MATH_1(m_asin, precise::asin)
MATH_1(m_acos, precise::acos) MATH_1(m_atan, precise::atan) MATH_1(m_sinh, precise::sinh)
MATH_1(m_cosh, precise::cosh) MATH_1(m_tanh, precise::tanh) MATH_1(m_floor, precise::floor)
MATH_1(m_ceil, precise::ceil) MATH_1(m_trunc, precise::trunc) MATH_1(m_round_even, precise::rint)
MATH_1(m_abs, precise::fabs)
FN f32 m_pow(f32 x, f32 y) { return precise::pow(x, y); }
FN f32 m_atan2(f32 y, f32 x) { return precise::atan2(y, x); }
FN f32 m_fma(f32 a, f32 b, f32 c) { return fma(a, b, c); }
#define PORTABLE_MATH 1
#define INFINITE (as_type<f32>(0x7f800000u))
