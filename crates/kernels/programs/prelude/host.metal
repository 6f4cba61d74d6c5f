// The words of the host: clang's C++ for OpenCL, whose address spaces are checked as Metal's are.
#pragma OPENCL EXTENSION __cl_clang_non_portable_kernel_param_types : enable
#pragma OPENCL EXTENSION __cl_clang_function_pointers : enable
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long i64;
typedef unsigned long u64;
typedef float f32;
typedef double f64;
#define HAS_F64 1
#define IS_HOST 1

#define FN static inline
#define DEVICE __global
#define SHARED __local
#define IN_SHARED __local
#define IN_PARAMS __constant const
#define IN_THREAD __private
#define TABLE __constant const
#define IN_TABLE __constant const
#define UNROLL
#define KEEP_LOOP

struct Thread {
    u32 group, group_y, group_z;
    u32 groups, groups_y, groups_z;
    u32 index, count, lane, simd;
};
// What the runtime calls a kernel with. The runtime has the same struct.
struct HostCall {
    Thread thread;
    u64 buffers[9];
    u64 params;
};
extern "C" {
__attribute__((noduplicate)) void host_barrier(void);
void host_simd_barrier(void);
// Gives the values of all lanes of the caller's simd group, each in `size` bytes.
const void* host_exchange(const void* value, u32 size);
u32 host_atomic_cas(u64 at, u32 expected, u32 desired);
u32 host_atomic_add(u64 at, u32 value);
// Variables of this object: nothing but what groups share. The runtime spoils it before a launch.
extern __attribute__((visibility("hidden"))) __global char __bss_start[];
extern __attribute__((visibility("hidden"))) __global char _end[];
__attribute__((visibility("default"))) void host_shared(u64* range) {
    range[0] = (u64)&__bss_start[0];
    range[1] = (u64)&_end[0];
}
}
#define THREAD (((const HostCall*)host_call)->thread)
#define EARLY_THREAD THREAD
#define after_the_one_before()
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define BUFFER(n) (DEVICE u8*)c->buffers[n]
#define KERNEL_HOST(declared, passed) \
    kernel void ENTRY(declared, __constant const Params& p, u64 host_call); \
    extern "C" __attribute__((visibility("default"))) void JOIN(launch_, ENTRY)(const HostCall* c) { \
        ENTRY(passed, *(__constant const Params*)c->params, (u64)c); \
    } \
    kernel void ENTRY(declared, __constant const Params& p, u64 host_call)
#define COMMA ,
#define KERNEL_1(a) KERNEL_HOST(DEVICE u8* a, BUFFER(0))
#define KERNEL_2(a, b) KERNEL_HOST(DEVICE u8* a COMMA DEVICE u8* b, BUFFER(0) COMMA BUFFER(1))
#define KERNEL_3(a, b, c) KERNEL_HOST(DEVICE u8* a COMMA DEVICE u8* b COMMA DEVICE u8* c, \
    BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2))
#define KERNEL_4(a, b, c, d) KERNEL_HOST(DEVICE u8* a COMMA DEVICE u8* b COMMA DEVICE u8* c COMMA DEVICE u8* d, \
    BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2) COMMA BUFFER(3))
#define KERNEL_5(a, b, c, d, e) KERNEL_HOST(DEVICE u8* a COMMA DEVICE u8* b COMMA DEVICE u8* c COMMA \
    DEVICE u8* d COMMA DEVICE u8* e, BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2) COMMA BUFFER(3) COMMA BUFFER(4))
#define KERNEL_6(a, b, c, d, e, f) KERNEL_HOST(DEVICE u8* a COMMA DEVICE u8* b COMMA DEVICE u8* c COMMA \
    DEVICE u8* d COMMA DEVICE u8* e COMMA DEVICE u8* f, \
    BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2) COMMA BUFFER(3) COMMA BUFFER(4) COMMA BUFFER(5))
#define KERNEL_7(a, b, c, d, e, f, g) KERNEL_HOST(DEVICE u8* a COMMA DEVICE u8* b COMMA DEVICE u8* c COMMA \
    DEVICE u8* d COMMA DEVICE u8* e COMMA DEVICE u8* f COMMA DEVICE u8* g, \
    BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2) COMMA BUFFER(3) COMMA BUFFER(4) COMMA BUFFER(5) COMMA BUFFER(6))
#define KERNEL_8(a, b, c, d, e, f, g, h) KERNEL_HOST(DEVICE u8* a COMMA DEVICE u8* b COMMA DEVICE u8* c COMMA \
    DEVICE u8* d COMMA DEVICE u8* e COMMA DEVICE u8* f COMMA DEVICE u8* g COMMA DEVICE u8* h, \
    BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2) COMMA BUFFER(3) COMMA BUFFER(4) COMMA BUFFER(5) COMMA \
    BUFFER(6) COMMA BUFFER(7))
#define KERNEL_9(a, b, c, d, e, f, g, h, i) KERNEL_HOST(DEVICE u8* a COMMA DEVICE u8* b COMMA DEVICE u8* c COMMA \
    DEVICE u8* d COMMA DEVICE u8* e COMMA DEVICE u8* f COMMA DEVICE u8* g COMMA DEVICE u8* h COMMA DEVICE u8* i, \
    BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2) COMMA BUFFER(3) COMMA BUFFER(4) COMMA BUFFER(5) COMMA BUFFER(6) \
    COMMA BUFFER(7) COMMA BUFFER(8))
#define CROWDED_KERNEL_6(groups, a, b, c, d, e, f) KERNEL_6(a, b, c, d, e, f)

#define group_barrier() host_barrier()
#define simd_group_barrier() host_simd_barrier()
#define LANE(name, from) template <typename T> FN T name(T value, u32 n) { \
        const HostLanes lanes = host_lanes(&value, sizeof(T)); \
        const u32 lane = lanes.lane; \
        const u32 source = from; \
        return ((const T*)lanes.values)[source < 32 ? source : lane]; \
    }
struct HostLanes { const void* values; u32 lane; };
extern "C" u32 host_lane(void);
FN HostLanes host_lanes(const void* value, u32 size) {
    HostLanes lanes;
    lanes.lane = host_lane();
    lanes.values = host_exchange(value, size);
    return lanes;
}
LANE(lane_xor, lane ^ n)
LANE(lane_down, lane + n)
LANE(lane_up, lane - n)
LANE(lane_read, n)

FN u32 atomic_cas(DEVICE u32* at, u32 expected, u32 desired) { return host_atomic_cas((u64)at, expected, desired); }
FN u32 atomic_add(DEVICE u32* at, u32 value) { return host_atomic_add((u64)at, value); }

FN u32 bits_of(f32 x) { return __builtin_astype(x, u32); }
FN u64 bits_of(f64 x) { return __builtin_astype(x, u64); }
FN f32 f32_of(u32 bits) { return __builtin_astype(bits, f32); }
FN f64 f64_of(u64 bits) { return __builtin_astype(bits, f64); }
FN u32 count_leading_zeros(u64 x) { return x == 0 ? 64u : (u32)__builtin_clzl(x); }
FN f32 exact_add(f32 a, f32 b) { return a + b; }
FN f32 exact_mul(f32 a, f32 b) { return a * b; }
FN f64 exact_add(f64 a, f64 b) { return a + b; }
FN f64 exact_mul(f64 a, f64 b) { return a * b; }
FN f32 f32_from_f16(u16 h) {
    const u32 sign = (u32)(h & 0x8000u) << 16;
    const u32 rest = (u32)(h & 0x7fffu);
    if (rest >= 0x7c00u) return f32_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x0400u) return f32_of(sign | ((rest << 13) + 0x38000000u));
    const f32 small = (f32)rest * 5.9604644775390625e-8f;
    return sign != 0 ? -small : small;
}
FN u16 f16_from_f32(f32 x) {
    const u32 bits = bits_of(x);
    const u32 sign = bits >> 16 & 0x8000u;
    const u32 rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (u16)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) return (u16)(sign | 0x7c00u);
    if (rest < 0x33000000u) return (u16)sign;
    if (rest >= 0x38800000u) {
        return (u16)(sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13);
    }
    // Subnormal: the sum with 0.5 has its last bit where that of the result is.
    return (u16)(sign | (bits_of(f32_of(rest) + 0.5f) - 0x3f000000u));
}

#define DECLARE_1(name) extern "C" f32 name##f(f32); extern "C" f64 name(f64);
#define MATH_1(own, name) DECLARE_1(name) \
    FN f32 own(f32 x) { return name##f(x); } \
    FN f64 own(f64 x) { return name(x); }
#define MATH_2(own, name) extern "C" f32 name##f(f32, f32); extern "C" f64 name(f64, f64); \
    FN f32 own(f32 x, f32 y) { return name##f(x, y); } \
    FN f64 own(f64 x, f64 y) { return name(x, y); }
MATH_1(m_exp, exp) MATH_1(m_log, log) MATH_1(m_log2, log2) MATH_1(m_sqrt, sqrt)
MATH_1(m_sin, sin) MATH_1(m_cos, cos) MATH_1(m_tan, tan) MATH_1(m_asin, asin) MATH_1(m_acos, acos)
MATH_1(m_atan, atan) MATH_1(m_sinh, sinh) MATH_1(m_cosh, cosh) MATH_1(m_tanh, tanh)
MATH_1(m_floor, floor) MATH_1(m_ceil, ceil) MATH_1(m_trunc, trunc) MATH_1(m_round_even, rint)
MATH_1(m_abs, fabs)
MATH_2(m_pow, pow) MATH_2(m_atan2, atan2)
FN f32 m_rsqrt(f32 x) { return 1.0f / m_sqrt(x); }
FN f64 m_rsqrt(f64 x) { return 1.0 / m_sqrt(x); }
extern "C" f32 fmaf(f32, f32, f32);
extern "C" f64 fma(f64, f64, f64);
FN f32 m_fma(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
FN f64 m_fma(f64 a, f64 b, f64 c) { return fma(a, b, c); }
// Those that Metal lacks are written out for f32, so that what Metal runs is what is tested here.
#define PORTABLE_MATH 1
#define MATH_1_F64(own, name) DECLARE_1(name) FN f64 own(f64 x) { return name(x); }
MATH_1_F64(m_erf, erf) MATH_1_F64(m_expm1, expm1) MATH_1_F64(m_log1p, log1p)
MATH_1_F64(m_asinh, asinh) MATH_1_F64(m_acosh, acosh) MATH_1_F64(m_atanh, atanh)
extern "C" f64 fmod(f64, f64);
FN f64 m_fmod(f64 x, f64 y) { return fmod(x, y); }
#define INFINITE (__builtin_inff())
