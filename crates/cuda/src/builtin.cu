// The few kernels that belong to this backend alone: completion, transfers and the clock.

typedef unsigned int u32;
typedef unsigned long long u64;
struct __align__(16) Vector4 { u32 word[4]; };

// What the host sees of a queue: the count of batches, and behind it SLOTS slots for faults, which batches use
// in turn. A slot has the tick of the batch that it was last written for, and a word per Command.
struct Page {
    u64 tick;
    u64 unused[7];
};
enum { SLOTS = 16, HEADER_WORDS = 4 };

// The kernel may have been started while the one before it still runs: waits for that one, and lets the next
// be started.
static __device__ void begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Some kernel of the batch left a note: gives the record to the host, and clears it for the next batch.
static __device__ void report_faults(u64 tick, u32* faults, Page* page, u64 commands) {
    u32* slot = (u32*)(page + 1) + tick % SLOTS * (HEADER_WORDS + commands);
    for (u64 i = HEADER_WORDS; i < HEADER_WORDS + commands; i++) {
        slot[i] = ((volatile u32*)faults)[i];
        faults[i] = 0;
    }
    faults[0] = 0;
    __threadfence_system();
    *(volatile u64*)slot = tick;
}

// One more batch is through: everything before it on the stream is visible to the host when the tick is.
// `tick` and `faulted` were read before.
static __device__ void finish(u64 tick, u32 faulted, u64* counter, u32* faults, Page* page, u64 commands) {
    *counter = tick;
    if (faulted != 0) report_faults(tick, faults, page, commands);
    __threadfence_system();
    ((volatile Page*)page)->tick = tick;
}

static __device__ void copy(char* target, const char* source, u64 bytes, u64 first, u64 step) {
    u64 bits = (u64)target | (u64)source | bytes;
    if (bits % 16 == 0) {
        for (u64 i = first; i < bytes / 16; i += step) ((Vector4*)target)[i] = ((const Vector4*)source)[i];
    } else if (bits % 4 == 0) {
        for (u64 i = first; i < bytes / 4; i += step) ((u32*)target)[i] = ((const u32*)source)[i];
    } else {
        for (u64 i = first; i < bytes; i += step) target[i] = source[i];
    }
}

extern "C" __global__ void ms_tick(u64* counter, u32* faults, Page* page, u64 commands) {
    begin();
    if (threadIdx.x == 0) finish(*counter + 1, *(volatile u32*)faults, counter, faults, page, commands);
}

extern "C" __global__ void ms_copy(char* target, const char* source, u64 bytes) {
    begin();
    u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    copy(target, source, bytes, first, (u64)gridDim.x * blockDim.x);
}

// A download and the tick in one. Each group's fence comes after its barrier, so it orders what all its threads
// wrote before the group counts as arrived; the last one to arrive ticks. How many have is kept behind the
// counter, and is 0 between kernels.
extern "C" __global__ void ms_copy_tick(char* target, const char* source, u64 bytes, u64* counter, u32* faults, Page* page, u64 commands) {
    begin();
    u64 tick = 0;
    u32 faulted = 0;
    if (threadIdx.x == 0) {
        // Asked for before the copy, so that they arrive with it.
        tick = *(volatile u64*)counter + 1;
        faulted = *(volatile u32*)faults;
    }
    copy(target, source, bytes, (u64)blockIdx.x * blockDim.x + threadIdx.x, (u64)gridDim.x * blockDim.x);
    __syncthreads();
    if (threadIdx.x != 0) return;
    if (gridDim.x > 1) {
        u32* arrived = (u32*)(counter + 1);
        __threadfence_system();
        if (atomicAdd(arrived, 1) + 1 < gridDim.x) return;
        *arrived = 0;
    }
    finish(tick, faulted, counter, faults, page, commands);
}

// The device's clock in nanoseconds.
extern "C" __global__ void ms_time(u64* target) {
    begin();
    u64 time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    *target = time;
}
