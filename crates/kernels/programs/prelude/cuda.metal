// The words of CUDA C++, for NVRTC without any header.
#pragma nv_diag_suppress 177, 186
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
#define HAS_F64 1
#define IS_CUDA 1

#define FN static __device__ __forceinline__
#define DEVICE
#define SHARED __shared__
#define IN_SHARED
#define IN_PARAMS const
#define IN_THREAD
#define TABLE static __device__ const
#define IN_TABLE const
#define UNROLL _Pragma("unroll")
#define KEEP_LOOP _Pragma("unroll 1")

struct Thread {
    u32 group, group_y, group_z;
    u32 groups, groups_y, groups_z;
    u32 index, count, lane, simd;
};
// A kernel may be started while the one before it on its stream still runs: what that one writes is there
// after this, and all of it is. Only then may the next be started, so that when a kernel starts, at most the
// one before it is still running.
FN void after_the_one_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
FN Thread early_thread() {
    const Thread t = {blockIdx.x, blockIdx.y, blockIdx.z, gridDim.x, gridDim.y, gridDim.z,
                      threadIdx.x, blockDim.x, threadIdx.x & 31u, threadIdx.x >> 5};
    return t;
}
FN Thread this_thread() {
    after_the_one_before();
    return early_thread();
}
// Every kernel asks for its thread before it touches memory. One that asks for EARLY_THREAD calls
// after_the_one_before() itself, before it touches anything that the one before may write.
#define THREAD this_thread()
#define EARLY_THREAD early_thread()
#define KERNEL_HEAD extern "C" __global__ void BOUNDS ENTRY
#define KERNEL_TAIL const __grid_constant__ Params p
// A constant THREADS is the size of the group; otherwise groups have at most 256 threads.
#define BOUNDS __launch_bounds__(THREADS)
#define KERNEL_1(a) KERNEL_HEAD(u8* a, KERNEL_TAIL)
#define KERNEL_2(a, b) KERNEL_HEAD(u8* a, u8* b, KERNEL_TAIL)
#define KERNEL_3(a, b, c) KERNEL_HEAD(u8* a, u8* b, u8* c, KERNEL_TAIL)
#define KERNEL_4(a, b, c, d) KERNEL_HEAD(u8* a, u8* b, u8* c, u8* d, KERNEL_TAIL)
#define KERNEL_5(a, b, c, d, e) KERNEL_HEAD(u8* a, u8* b, u8* c, u8* d, u8* e, KERNEL_TAIL)
#define KERNEL_6(a, b, c, d, e, f) KERNEL_HEAD(u8* a, u8* b, u8* c, u8* d, u8* e, u8* f, KERNEL_TAIL)
#define KERNEL_7(a, b, c, d, e, f, g) KERNEL_HEAD(u8* a, u8* b, u8* c, u8* d, u8* e, u8* f, u8* g, KERNEL_TAIL)
#define KERNEL_8(a, b, c, d, e, f, g, h) \
    KERNEL_HEAD(u8* a, u8* b, u8* c, u8* d, u8* e, u8* f, u8* g, u8* h, KERNEL_TAIL)
#define KERNEL_9(a, b, c, d, e, f, g, h, i) KERNEL_HEAD(u8* a, u8* b, u8* c, u8* d, u8* e, u8* f, u8* g, u8* h, \
    u8* i, KERNEL_TAIL)
// One whose registers are so few that a processor has room for so many groups at once.
#define CROWDED_KERNEL_6(groups, a, b, c, d, e, f) extern "C" __global__ void __launch_bounds__(THREADS, groups) \
    ENTRY(u8* a, u8* b, u8* c, u8* d, u8* e, u8* f, KERNEL_TAIL)

#define group_barrier() __syncthreads()
#define simd_group_barrier() __syncwarp()
template <typename T> FN T lane_xor(T value, u32 mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
template <typename T> FN T lane_down(T value, u32 by) { return __shfl_down_sync(0xffffffffu, value, by); }
template <typename T> FN T lane_up(T value, u32 by) { return __shfl_up_sync(0xffffffffu, value, by); }
template <typename T> FN T lane_read(T value, u32 lane) { return __shfl_sync(0xffffffffu, value, lane); }

FN u32 atomic_cas(u32* at, u32 expected, u32 desired) { return atomicCAS_system(at, expected, desired); }
FN u32 atomic_add(u32* at, u32 value) { return atomicAdd(at, value); }

FN u32 bits_of(f32 x) { return __float_as_uint(x); }
FN u64 bits_of(f64 x) { return (u64)__double_as_longlong(x); }
FN f32 f32_of(u32 bits) { return __uint_as_float(bits); }
FN f64 f64_of(u64 bits) { return __longlong_as_double((i64)bits); }
FN f32 f32_from_f16(u16 h) {
    f32 x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
FN u16 f16_from_f32(f32 x) {
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
FN u32 count_leading_zeros(u64 x) { return (u32)__clzll((i64)x); }
// Sums and products that must be rounded one by one, never joined to one operation.
FN f32 exact_add(f32 a, f32 b) { return __fadd_rn(a, b); }
FN f32 exact_mul(f32 a, f32 b) { return __fmul_rn(a, b); }
FN f64 exact_add(f64 a, f64 b) { return __dadd_rn(a, b); }
FN f64 exact_mul(f64 a, f64 b) { return __dmul_rn(a, b); }

#define MATH_1(name, of_f32, of_f64) \
    FN f32 name(f32 x) { return of_f32(x); } \
    FN f64 name(f64 x) { return of_f64(x); }
#define MATH_2(name, of_f32, of_f64) \
    FN f32 name(f32 x, f32 y) { return of_f32(x, y); } \
    FN f64 name(f64 x, f64 y) { return of_f64(x, y); }
MATH_1(m_exp, expf, exp) MATH_1(m_log, logf, log) MATH_1(m_log2, log2f, log2) MATH_1(m_sqrt, sqrtf, sqrt)
MATH_1(m_rsqrt, rsqrtf, rsqrt) MATH_1(m_sin, sinf, sin) MATH_1(m_cos, cosf, cos) MATH_1(m_tan, tanf, tan)
MATH_1(m_asin, asinf, asin) MATH_1(m_acos, acosf, acos) MATH_1(m_atan, atanf, atan)
MATH_1(m_sinh, sinhf, sinh) MATH_1(m_cosh, coshf, cosh) MATH_1(m_tanh, tanhf, tanh)
MATH_1(m_asinh, asinhf, asinh) MATH_1(m_acosh, acoshf, acosh) MATH_1(m_atanh, atanhf, atanh)
MATH_1(m_erf, erff, erf) MATH_1(m_expm1, expm1f, expm1) MATH_1(m_log1p, log1pf, log1p)
MATH_1(m_floor, floorf, floor) MATH_1(m_ceil, ceilf, ceil) MATH_1(m_trunc, truncf, trunc)
MATH_1(m_round_even, rintf, rint) MATH_1(m_abs, fabsf, fabs)
MATH_2(m_fmod, fmodf, fmod) MATH_2(m_pow, powf, pow) MATH_2(m_atan2, atan2f, atan2)
FN f32 m_fma(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
FN f64 m_fma(f64 a, f64 b, f64 c) { return fma(a, b, c); }
#define INFINITE (__int_as_float(0x7f800000))
