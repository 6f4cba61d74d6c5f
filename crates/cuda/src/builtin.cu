// The few kernels that belong to this backend alone: completion, transfers and the clock.

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

// The kernel may have been started while the one before it still runs: waits for that one, and lets the next
// be started.
static __device__ void begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// One more batch is through: everything before it on the stream is visible to the host when the tick is.
// `tick` and `fault` were read before.
static __device__ void finish(u64 tick, u32 fault, u64* counter, u32* faults, volatile Page* page) {
    *counter = tick;
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
    begin();
    if (threadIdx.x == 0) finish(*counter + 1, ((volatile u32*)faults)[1], counter, faults, page);
}

extern "C" __global__ void ms_copy(char* target, const char* source, u64 bytes) {
    begin();
    u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    copy(target, source, bytes, first, (u64)gridDim.x * blockDim.x);
}

// A download and the tick in one. Each group's fence comes after its barrier, so it orders what all its threads
// wrote before the group counts as arrived; the last one to arrive ticks. How many have is kept behind the
// counter, and is 0 between kernels.
extern "C" __global__ void ms_copy_tick(char* target, const char* source, u64 bytes, u64* counter, u32* faults, Page* page) {
    begin();
    u64 tick = 0;
    u32 fault = 0;
    if (threadIdx.x == 0) {
        // Asked for before the copy, so that they arrive with it.
        tick = *(volatile u64*)counter + 1;
        fault = ((volatile u32*)faults)[1];
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
    finish(tick, fault, counter, faults, page);
}

// The device's clock in nanoseconds.
extern "C" __global__ void ms_time(u64* target) {
    begin();
    u64 time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    *target = time;
}
