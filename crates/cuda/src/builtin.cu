// The few kernels that belong to this backend alone: completion, transfers, the clock, and products of few
// rows.

typedef unsigned int u32;
typedef unsigned long long u64;
struct __align__(16) Block { u32 word[4]; };

// What the host sees of a queue. `faulted` is the tick of the batch whose fault word is in `fault`; the
// host sets it back to 0 when nothing is in flight.
struct Page {
    u64 tick;
    u64 unused[7];
    u64 faulted;
    u64 fault;
};

// One more batch is through: everything before it on the stream is visible to the host when the tick is.
static __device__ void finish(u64* counter, u32* faults, volatile Page* page) {
    u64 tick = *counter + 1;
    *counter = tick;
    u32 fault = ((volatile u32*)faults)[1];
    if (fault != 0) {
        if (page->faulted == 0) {
            page->fault = fault;
            __threadfence_system();
            page->faulted = tick;
        }
        faults[0] = 0;
        faults[1] = 0;
    }
    __threadfence_system();
    page->tick = tick;
}

static __device__ void copy(char* target, const char* source, u64 bytes, u64 first, u64 step) {
    u64 bits = (u64)target | (u64)source | bytes;
    if (bits % 16 == 0) {
        for (u64 i = first; i < bytes / 16; i += step) ((Block*)target)[i] = ((const Block*)source)[i];
    } else if (bits % 4 == 0) {
        for (u64 i = first; i < bytes / 4; i += step) ((u32*)target)[i] = ((const u32*)source)[i];
    } else {
        for (u64 i = first; i < bytes; i += step) target[i] = source[i];
    }
}

extern "C" __global__ void ms_tick(u64* counter, u32* faults, Page* page) {
    if (threadIdx.x == 0) finish(counter, faults, page);
}

extern "C" __global__ void ms_copy(char* target, const char* source, u64 bytes) {
    u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    copy(target, source, bytes, first, (u64)gridDim.x * blockDim.x);
}

// A small download and the tick in one. Only with one group.
extern "C" __global__ void ms_copy_tick(char* target, const char* source, u64 bytes, u64* counter, u32* faults, Page* page) {
    copy(target, source, bytes, threadIdx.x, blockDim.x);
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) finish(counter, faults, page);
}

// The device's clock in nanoseconds.
extern "C" __global__ void ms_time(u64* target) {
    u64 time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    *target = time;
}

// Matrix products of very few rows with a transposed matrix, `y = relu?(scale * x w' + bias + residual)`:
// what a model with a batch of one consists of. A warp makes one column: it reads one row of `w`, which is
// all the memory traffic there is, and adds up in f32.
enum Kind { F32, F16, BF16 };

template <int KIND> static __device__ float low(u32 pair) {
    float value;
    if (KIND == BF16) return __uint_as_float(pair << 16);
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((unsigned short)pair));
    return value;
}

template <int KIND> static __device__ float high(u32 pair) {
    return KIND == BF16 ? __uint_as_float(pair & 0xffff0000u) : low<KIND>(pair >> 16);
}

template <int KIND> static __device__ float add_products(float sum, const Block& a, const Block& b) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (KIND == F32) {
            sum = fmaf(__uint_as_float(a.word[i]), __uint_as_float(b.word[i]), sum);
        } else {
            sum = fmaf(low<KIND>(a.word[i]), low<KIND>(b.word[i]), sum);
            sum = fmaf(high<KIND>(a.word[i]), high<KIND>(b.word[i]), sum);
        }
    }
    return sum;
}

template <int KIND> static __device__ float load(const char* base, u64 index) {
    return KIND == F32 ? ((const float*)base)[index] : low<KIND>(((const unsigned short*)base)[index]);
}

template <int KIND> static __device__ void store(char* base, u64 index, float value) {
    unsigned short bits;
    if (KIND == F32) {
        ((float*)base)[index] = value;
        return;
    }
    if (KIND == BF16) asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    else asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    ((unsigned short*)base)[index] = bits;
}

template <int KIND, int ROWS>
static __device__ void rows(const char* x, u64 x_step, const char* w, u64 w_step, char* y, u64 y_step, const char* bias, const char* residual, u64 residual_step, u64 columns, u64 inner, u64 scale, u64 relu) {
    const u64 size = KIND == F32 ? 4 : 2;
    u32 lane = threadIdx.x % 32;
    u64 column = (u64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (column >= columns) return;
    const Block* weights = (const Block*)(w + column * w_step * size);
    float sums[ROWS] = {};
#pragma unroll 4
    for (u64 i = lane; i < inner * size / 16; i += 32) {
        Block weight = weights[i];
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            sums[row] = add_products<KIND>(sums[row], ((const Block*)(x + row * x_step * size))[i], weight);
        }
    }
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        float sum = sums[row];
#pragma unroll
        for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
        if (lane == row) {
            sum *= __uint_as_float((u32)scale);
            if (bias) sum += load<KIND>(bias, column);
            if (residual) sum += load<KIND>(residual, row * residual_step + column);
            if (relu) sum = sum < 0.0f ? 0.0f : sum;
            store<KIND>(y, row * y_step + column, sum);
        }
    }
}

#define ROWS_KERNEL(KIND, COUNT) \
    extern "C" __global__ void ms_rows_##KIND##_##COUNT(const char* x, u64 x_step, const char* w, u64 w_step, char* y, u64 y_step, const char* bias, const char* residual, u64 residual_step, u64 columns, u64 inner, u64 scale, u64 relu) { \
        rows<KIND, COUNT>(x, x_step, w, w_step, y, y_step, bias, residual, residual_step, columns, inner, scale, relu); \
    }
#define ROWS_KERNELS(KIND) ROWS_KERNEL(KIND, 1) ROWS_KERNEL(KIND, 2) ROWS_KERNEL(KIND, 3) ROWS_KERNEL(KIND, 4)
ROWS_KERNELS(F32)
ROWS_KERNELS(F16)
ROWS_KERNELS(BF16)
