// What `builtin.cu` needs to be a C program. It is put before its text.
#include <stdint.h>
#include <time.h>

typedef struct Vector4 Vector4;
typedef struct Page Page;
#define __device__
#define __global__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __syncthreads()
#define __threadfence_system() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define atomicAdd(at, value) __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST)

// The only thread of the only group.
static const struct { unsigned x; } threadIdx = { 0 }, blockIdx = { 0 }, blockDim = { 1 }, gridDim = { 1 };

static unsigned long long host_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}
