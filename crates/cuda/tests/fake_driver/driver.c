// A CUDA driver, compiler and cuBLASLt that run on the host: as much of them as this backend calls.
//
// Device memory is host memory. Every stream has a thread that does what it was given, in order. Kernels
// are known by name: those of `builtin.cu` are run, `gather` is done, all others do nothing. A copy of three bytes
// plants a trouble: "DIE" loses the device, "ZZZ" sleeps, "HNG" hangs until `fake_release` is called. Functions
// whose names begin with `fake_` are for tests.
//
// With FAKE_DRIVER_AT_ONCE=1 everything is done by the thread that asks for it: what is left of the time of a
// call is this backend's own (`bench/host.rs`).

#include <ctype.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long u64;
typedef int CUresult;
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NOT_READY = 600, ILLEGAL_ADDRESS = 700, CAPTURE_UNSUPPORTED = 900 };

static const u64 MEMORY = 512u << 20;
static u64 allocated;
static volatile int dead;
static int at_once;

// An event that is recorded again leaves those who wait for the record before it where they were.
typedef struct Record { pthread_mutex_t lock; pthread_cond_t changed; int done, holders; } Record;
typedef struct Event { Record* latest; } Event;
typedef struct Function { char name[256]; } Function;
typedef struct Product { int ta, tb, epilogue, batch; u64 bias; float alpha, beta; u64 a, b, c, d; int64_t lda, ldb, ldc, ldd, sa, sb, sc, sd; u64 m, n, k; } Product;
// As `Walk<3>`, `Tuple` and `GatherParams` of the common source.
typedef struct Gather { u64 count, shape[8], offset[3], stride[3][8], size[8], step_of[8], step; uint32_t tuple, wide, index; } Gather;
typedef struct Item {
    struct Item* next;
    enum { KERNEL, COPY, RECORD, WAIT, PRODUCT } kind;
    Function* function;
    u64 words[7];
    Gather gather;
    Record* record;
    Product product;
} Item;
typedef struct Stream {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    Item *first, *last;
    int busy, stop, capturing;
    pthread_t thread, capturer;
} Stream;
typedef struct Graph { Item *first, *last; } Graph;
enum { HEADER_WORDS = 4 };

// The kernels of `builtin.cu`, compiled for one thread.
typedef struct Page Page;
void ms_tick(u64* counter, uint32_t* faults, Page* page, u64 commands);
void ms_copy_tick(char* target, const char* source, u64 bytes, u64* counter, uint32_t* faults, Page* page, u64 commands);
void ms_time(u64* target);

// `unit` is the size of what is moved at once, `rank` the number of axes.
static void gather(const Gather* p, int unit, int rank, char* target, const char* source, const char* indices, uint32_t* faults) {
    for (u64 item = 0; item < p->count; item++) {
        u64 at[3] = { p->offset[0], p->offset[1], p->offset[2] }, rest = item;
        for (int axis = 0; axis < rank; axis++) {
            u64 here = axis < rank - 1 ? rest % p->shape[axis] : rest;
            if (axis < rank - 1) rest /= p->shape[axis];
            for (int k = 0; k < 3; k++) at[k] += here * p->stride[k][axis];
        }
        int inside = 1;
        for (u64 k = 0; k < p->tuple; k++) {
            int64_t index = p->wide ? ((const int64_t*)indices)[at[2] + k * p->step] : ((const int32_t*)indices)[at[2] + k * p->step];
            u64 place = index < 0 ? (u64)index + p->size[k] : (u64)index;
            if (place >= p->size[k]) { inside = 0; break; }
            at[1] += place * p->step_of[k];
        }
        if (inside) memcpy(target + at[0] * unit, source + at[1] * unit, unit);
        else { memset(target + at[0] * unit, 0, unit); faults[HEADER_WORDS + p->index] = 1; faults[0] = 1; }
    }
}

static pthread_mutex_t hang_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t hang_changed = PTHREAD_COND_INITIALIZER;
static int released;
u64 fake_release(void) {
    pthread_mutex_lock(&hang_lock);
    released = 1;
    pthread_cond_broadcast(&hang_changed);
    return pthread_mutex_unlock(&hang_lock);
}

static void hang(void) {
    pthread_mutex_lock(&hang_lock);
    while (!released) pthread_cond_wait(&hang_changed, &hang_lock);
    pthread_mutex_unlock(&hang_lock);
}

static void trouble(u64 source, u64 bytes) {
    if (bytes != 3) return;
    if (!memcmp((void*)source, "DIE", 3)) dead = 1;
    if (!memcmp((void*)source, "ZZZ", 3)) usleep(200000);
    if (!memcmp((void*)source, "HNG", 3)) hang();
}

static void copy(u64 target, u64 source, u64 bytes) {
    trouble(source, bytes);
    memcpy((void*)target, (void*)source, bytes);
}

static void multiply(const Product* p) {
    for (int batch = 0; batch < p->batch; batch++)
        for (u64 column = 0; column < p->n; column++)
            for (u64 row = 0; row < p->m; row++) {
                const float* a = (const float*)p->a + batch * p->sa;
                const float* b = (const float*)p->b + batch * p->sb;
                float sum = 0;
                for (u64 i = 0; i < p->k; i++)
                    sum += (p->ta ? a[row * p->lda + i] : a[i * p->lda + row]) * (p->tb ? b[i * p->ldb + column] : b[column * p->ldb + i]);
                sum *= p->alpha;
                if (p->beta != 0) sum += p->beta * ((const float*)p->c)[batch * p->sc + column * p->ldc + row];
                if (p->epilogue & 4) sum += ((const float*)p->bias)[row];
                if ((p->epilogue & 2) && sum < 0) sum = 0;
                ((float*)p->d)[batch * p->sd + column * p->ldd + row] = sum;
            }
}

static Record* hold(Record* record) {
    if (record) __sync_add_and_fetch(&record->holders, 1);
    return record;
}

static void let_go(Record* record) {
    if (record && !__sync_sub_and_fetch(&record->holders, 1)) free(record);
}

static void run(Item* item) {
    u64* w = item->words;
    switch (item->kind) {
    case KERNEL: {
        const char* name = item->function->name;
        int unit, rank;
        if (!strcmp(name, "ms_tick")) ms_tick((u64*)w[0], (uint32_t*)w[1], (Page*)w[2], w[3]);
        else if (!strcmp(name, "ms_copy")) copy(w[0], w[1], w[2]);
        else if (!strcmp(name, "ms_copy_tick")) { trouble(w[1], w[2]); ms_copy_tick((char*)w[0], (char*)w[1], w[2], (u64*)w[3], (uint32_t*)w[4], (Page*)w[5], w[6]); }
        else if (sscanf(name, "ms_gather_%d_%d", &unit, &rank) == 2) gather(&item->gather, unit, rank, (char*)w[0], (const char*)w[1], (const char*)w[2], (uint32_t*)w[3]);
        else if (!strcmp(name, "ms_time")) ms_time((u64*)w[0]);
        break;
    }
    case COPY: copy(w[0], w[1], w[2]); break;
    case PRODUCT: multiply(&item->product); break;
    case RECORD:
        pthread_mutex_lock(&item->record->lock);
        item->record->done = 1;
        pthread_cond_broadcast(&item->record->changed);
        pthread_mutex_unlock(&item->record->lock);
        let_go(item->record);
        break;
    case WAIT:
        if (!item->record) break;
        pthread_mutex_lock(&item->record->lock);
        while (!item->record->done && !dead) pthread_cond_wait(&item->record->changed, &item->record->lock);
        pthread_mutex_unlock(&item->record->lock);
        let_go(item->record);
        break;
    }
}

static void* work(void* argument) {
    Stream* stream = argument;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while ((!stream->first || stream->capturing) && !stream->stop) { stream->busy = 0; pthread_cond_broadcast(&stream->changed); pthread_cond_wait(&stream->changed, &stream->lock); }
        if (!stream->first) break;
        Item* item = stream->first;
        stream->first = item->next;
        stream->busy = 1;
        pthread_mutex_unlock(&stream->lock);
        if (!dead) run(item);
        free(item);
        pthread_mutex_lock(&stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
    return 0;
}

static CUresult give(Stream* stream, Item item) {
    if (dead) return ILLEGAL_ADDRESS;
    if (at_once && !stream->capturing) { run(&item); return OK; }
    Item* own = malloc(sizeof item);
    *own = item;
    own->next = 0;
    pthread_mutex_lock(&stream->lock);
    if (stream->first) stream->last->next = own; else stream->first = own;
    stream->last = own;
    if (!stream->capturing) { stream->busy = 1; pthread_cond_broadcast(&stream->changed); }
    pthread_mutex_unlock(&stream->lock);
    return OK;
}

CUresult cuInit(unsigned flags) { (void)flags; at_once = getenv("FAKE_DRIVER_AT_ONCE") != 0; return OK; }
CUresult cuDriverGetVersion(int* version) { *version = 13000; return OK; }
CUresult cuDeviceGetCount(int* count) { *count = 2; return OK; }
CUresult cuDeviceGet(int* device, int ordinal) { *device = ordinal; return OK; }
CUresult cuDeviceGetName(char* name, int size, int device) { snprintf(name, size, "Fake GPU %d", device); return OK; }
CUresult cuDeviceTotalMem_v2(size_t* bytes, int device) { (void)device; *bytes = MEMORY; return OK; }
CUresult cuDeviceGetAttribute(int* value, int which, int device) {
    (void)device;
    *value = which == 75 ? 9 : which == 76 ? 0 : which == 16 ? 132 : which == 8 ? 49152 : which == 1 ? 1024 : 0;
    return OK;
}
CUresult cuGetErrorName(CUresult error, const char** text) { *text = error == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE"; return OK; }
CUresult cuGetErrorString(CUresult error, const char** text) { (void)error; *text = "as planted"; return OK; }
static __thread void* current;
CUresult cuDevicePrimaryCtxRetain(void** context, int device) { *context = (void*)(intptr_t)(device + 1); return OK; }
CUresult cuCtxSetCurrent(void* context) { current = context; return OK; }
static int no_memory;
u64 fake_refuse_memory(void) { return no_memory = 1; }
u64 fake_allow_memory(void) { return no_memory = 0; }
static int calls_fail;
u64 fake_fail_calls(void) { return calls_fail = 1; }
u64 fake_mend_calls(void) { return calls_fail = 0; }
CUresult cuMemAlloc_v2(u64* address, size_t bytes) {
    if (!current) return 201;
    if (calls_fail) return INVALID;
    if (no_memory) return OUT_OF_MEMORY;
    if (__sync_add_and_fetch(&allocated, bytes) > MEMORY) { __sync_sub_and_fetch(&allocated, bytes); return OUT_OF_MEMORY; }
    u64* memory = aligned_alloc(256, (bytes + 511) / 256 * 256);
    memory[0] = bytes;
    *address = (u64)memory + 256;
    return OK;
}
CUresult cuMemFree_v2(u64 address) {
    if (!current) return 201;
    u64* memory = (u64*)(address - 256);
    __sync_sub_and_fetch(&allocated, memory[0]);
    free(memory);
    return OK;
}
CUresult cuMemsetD8_v2(u64 address, unsigned char value, size_t bytes) { memset((void*)address, value, bytes); return OK; }
static u64 registered;
u64 fake_registered(void) { return registered; }
CUresult cuMemHostRegister_v2(void* host, size_t bytes, unsigned flags) { (void)host; (void)bytes; if (flags != 3) return INVALID; if (no_memory) return OUT_OF_MEMORY; __sync_add_and_fetch(&registered, 1); return OK; }
CUresult cuMemHostUnregister(void* host) { (void)host; __sync_sub_and_fetch(&registered, 1); return OK; }
CUresult cuMemHostGetDevicePointer_v2(u64* address, void* host, unsigned flags) { (void)flags; *address = (u64)host; return OK; }
CUresult cuMemHostAlloc(void** host, size_t bytes, unsigned flags) { (void)flags; if (no_memory) return OUT_OF_MEMORY; *host = calloc(1, bytes); return OK; }
CUresult cuMemFreeHost(void* host) { free(host); return OK; }
CUresult cuStreamCreate(Stream** result, unsigned flags) {
    if (calls_fail) return INVALID;
    if (!current || flags != 1) return INVALID;
    Stream* stream = calloc(1, sizeof *stream);
    pthread_mutex_init(&stream->lock, 0);
    pthread_cond_init(&stream->changed, 0);
    pthread_create(&stream->thread, 0, work, stream);
    *result = stream;
    return OK;
}
CUresult cuStreamDestroy_v2(Stream* stream) {
    pthread_mutex_lock(&stream->lock);
    stream->stop = 1;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, 0);
    free(stream);
    return OK;
}
CUresult cuStreamQuery(Stream* stream) {
    if (dead) return ILLEGAL_ADDRESS;
    pthread_mutex_lock(&stream->lock);
    CUresult result = stream->first || stream->busy ? NOT_READY : OK;
    pthread_mutex_unlock(&stream->lock);
    return result;
}
CUresult cuStreamSynchronize(Stream* stream) {
    pthread_mutex_lock(&stream->lock);
    while (stream->first || stream->busy) pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
    return OK;
}
CUresult cuEventCreate(Event** result, unsigned flags) {
    if (flags != 2) return INVALID;
    *result = calloc(1, sizeof **result);
    return OK;
}
CUresult cuEventDestroy_v2(Event* event) { let_go(event->latest); free(event); return OK; }
CUresult cuEventRecord(Event* event, Stream* stream) {
    Record* record = calloc(1, sizeof *record);
    pthread_mutex_init(&record->lock, 0);
    pthread_cond_init(&record->changed, 0);
    let_go(event->latest);
    event->latest = hold(record);
    Item item = { .kind = RECORD, .record = hold(record) };
    return give(stream, item);
}
CUresult cuStreamWaitEvent(Stream* stream, Event* event, unsigned flags) {
    (void)flags;
    Item item = { .kind = WAIT, .record = hold(event->latest) };
    return give(stream, item);
}
CUresult cuModuleLoadData(void** module, const void* image) { *module = (void*)image; return memcmp(image, "\x7f" "ELF", 4) ? INVALID : OK; }
CUresult cuModuleUnload(void* module) { (void)module; return OK; }
CUresult cuModuleGetFunction(Function** result, void* module, const char* name) {
    (void)module;
    Function* function = calloc(1, sizeof *function);
    snprintf(function->name, sizeof function->name, "%s", name);
    *result = function;
    return OK;
}
CUresult cuFuncLoad(Function* function) { (void)function; return OK; }
static u64 latest_early = 2;
u64 fake_latest_early(void) { return latest_early; }
static char refused[16];
u64 fake_refuse_softmax(void) { strcpy(refused, "ms_softmax"); return 0; }
u64 fake_refuse_nothing(void) { refused[0] = 0; return 0; }
CUresult cuLaunchKernel(Function* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz, unsigned shared, Stream* stream, void** arguments, void** extra) {
    (void)y; (void)z; (void)ty; (void)tz; (void)shared; (void)extra;
    if (!current || x == 0 || threads == 0 || threads > 1024) return INVALID;
    const char* name = function->name;
    if (refused[0] && strstr(name, refused)) return INVALID;
    Item item = { .kind = KERNEL, .function = function };
    int gathers = !strncmp(name, "ms_gather_", 10) && isdigit(name[10]);
    int count = !strcmp(name, "ms_tick") || gathers ? 4 : !strcmp(name, "ms_copy") ? 3 : !strcmp(name, "ms_copy_tick") ? 7 : !strcmp(name, "ms_time") ? 1 : 0;
    for (int i = 0; i < count; i++) item.words[i] = *(u64*)arguments[i];
    if (gathers) memcpy(&item.gather, arguments[4], sizeof item.gather);
    // `early` of `GemvParams`, behind five buffers.
    if (!strncmp(name, "ms_gemv_", 8) && isdigit(name[8])) latest_early = *(uint32_t*)((char*)arguments[5] + 212);
    return give(stream, item);
}
typedef struct { unsigned groups[3], threads[3], shared; Stream* stream; void* attributes; unsigned count; } LaunchConfig;
CUresult cuLaunchKernelEx(const LaunchConfig* config, Function* function, void** arguments, void** extra) {
    const unsigned *g = config->groups, *t = config->threads;
    return cuLaunchKernel(function, g[0], g[1], g[2], t[0], t[1], t[2], config->shared, config->stream, arguments, extra);
}
static CUresult transfer(u64 target, u64 source, size_t bytes, Stream* stream) {
    Item item = { .kind = COPY, .words = { target, source, bytes } };
    return give(stream, item);
}
CUresult cuMemcpyHtoDAsync_v2(u64 target, const void* source, size_t bytes, Stream* stream) { return transfer(target, (u64)source, bytes, stream); }
CUresult cuMemcpyDtoHAsync_v2(void* target, u64 source, size_t bytes, Stream* stream) { return transfer((u64)target, source, bytes, stream); }
CUresult cuStreamBeginCapture_v2(Stream* stream, int mode) {
    if (mode != 1) return INVALID;
    // The thread of a stream under capture runs nothing.
    pthread_mutex_lock(&stream->lock);
    int open = stream->capturing;
    stream->capturing = 1;
    stream->capturer = pthread_self();
    pthread_mutex_unlock(&stream->lock);
    return open ? INVALID : OK;
}
CUresult cuStreamEndCapture(Stream* stream, Graph** result) {
    // What one thread has begun, another does not end.
    if (!stream->capturing || !pthread_equal(stream->capturer, pthread_self())) return INVALID;
    Graph* graph = calloc(1, sizeof *graph);
    pthread_mutex_lock(&stream->lock);
    graph->first = stream->first;
    stream->first = 0;
    stream->capturing = 0;
    pthread_mutex_unlock(&stream->lock);
    *result = graph;
    return OK;
}
static u64 graphs;
u64 fake_graphs(void) { return graphs; }
CUresult cuGraphInstantiateWithFlags(Graph** exec, Graph* graph, u64 flags) { if (flags) return INVALID; __sync_add_and_fetch(&graphs, 1); *exec = calloc(1, sizeof *graph); **exec = *graph; return OK; }
CUresult cuGraphDestroy(Graph* graph) { free(graph); return OK; }
CUresult cuGraphExecDestroy(Graph* exec) { (void)exec; __sync_sub_and_fetch(&graphs, 1); return OK; }
static u64 launched;
u64 fake_graph_launches(void) { return launched; }
static int refuse_graphs;
u64 fake_refuse_graphs(void) { return refuse_graphs = 1; }
// What launches took of this thread, in nanoseconds: what is left of a replayed call is the caller's.
static __thread u64 own_ns;
u64 fake_own_ns(void) { return own_ns; }
static u64 now_ns(void) { struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now); return now.tv_sec * 1000000000ull + now.tv_nsec; }
CUresult cuGraphLaunch(Graph* exec, Stream* stream) {
    u64 began = at_once ? now_ns() : 0;
    if (refuse_graphs) return INVALID;
    __sync_add_and_fetch(&launched, 1);
    for (Item* item = exec->first; item; item = item->next) {
        if (at_once) { run(item); continue; }
        if (give(stream, *item)) return ILLEGAL_ADDRESS;
    }
    if (at_once) own_ns += now_ns() - began;
    return OK;
}

// A program is known by its name: the compiler does not like cumsum, and softmax can be held until `fake_release`.
static u64 compiles;
static int hold_softmax, refuse_compiles;
u64 fake_compiles(void) { return __sync_add_and_fetch(&compiles, 0); }
u64 fake_hold_softmax(void) { return hold_softmax = 1; }
u64 fake_refuse_compiles(void) { return refuse_compiles = 1; }
u64 fake_allow_compiles(void) { return refuse_compiles = 0; }
int nvrtcCreateProgram(void** program, const char* source, const char* name, int headers, const char** texts, const char** names) {
    (void)source; (void)headers; (void)texts; (void)names;
    *program = strstr(name, "ms_cumsum") ? (void*)2 : strstr(name, "ms_softmax") ? (void*)3 : (void*)1;
    return 0;
}
int nvrtcCompileProgram(void* program, int count, const char** options) {
    __sync_add_and_fetch(&compiles, 1);
    if (program == (void*)3 && hold_softmax) hang();
    int fits = count > 0 && !strcmp(options[0], "--gpu-architecture=sm_90");
    return fits && program != (void*)2 && !refuse_compiles ? 0 : 5;
}
int nvrtcGetCUBINSize(void* program, size_t* bytes) { (void)program; *bytes = 8; return 0; }
int nvrtcGetCUBIN(void* program, char* image) { (void)program; memcpy(image, "\x7f" "ELFfake", 8); return 0; }
int nvrtcGetProgramLogSize(void* program, size_t* bytes) { (void)program; *bytes = 1; return 0; }
int nvrtcGetProgramLog(void* program, char* text) { (void)program; *text = 0; return 0; }
int nvrtcDestroyProgram(void** program) { *program = 0; return 0; }
const char* nvrtcGetErrorString(int result) { (void)result; return "as planted"; }

typedef struct Layout { u64 rows, columns; int64_t leading, stride; int batch; } Layout;
typedef struct Operation { int ta, tb, epilogue; u64 bias; } Operation;
int cublasLtCreate(void** handle) { *handle = (void*)1; return current ? 0 : 1; }
int cublasLtDestroy(void* handle) { (void)handle; return 0; }
const char* cublasLtGetStatusString(int status) { (void)status; return "as planted"; }
int cublasLtMatmulDescCreate(Operation** result, int compute, int scale) { if (compute != 68 || scale != 0) return 15; *result = calloc(1, sizeof **result); return 0; }
int cublasLtMatmulDescDestroy(Operation* operation) { free(operation); return 0; }
int cublasLtMatmulDescSetAttribute(Operation* operation, int which, const void* value, size_t bytes) {
    if (bytes != (which == 8 ? 8u : 4u)) return 7;
    if (which == 3) operation->ta = *(int*)value; else if (which == 4) operation->tb = *(int*)value;
    else if (which == 7) operation->epilogue = *(int*)value; else if (which == 8) operation->bias = *(u64*)value; else return 7;
    return 0;
}
int cublasLtMatrixLayoutCreate(Layout** result, int type, u64 rows, u64 columns, int64_t leading) {
    if (type != 0 || leading < (int64_t)rows) return 7;
    *result = calloc(1, sizeof **result);
    **result = (Layout){ rows, columns, leading, 0, 1 };
    return 0;
}
int cublasLtMatrixLayoutDestroy(Layout* layout) { free(layout); return 0; }
int cublasLtMatrixLayoutSetAttribute(Layout* layout, int which, const void* value, size_t bytes) {
    if (which == 5 && bytes == 4) layout->batch = *(int*)value; else if (which == 6 && bytes == 8) layout->stride = *(int64_t*)value; else return 7;
    return 0;
}
int cublasLtMatmulPreferenceCreate(void** preference) { *preference = (void*)1; return 0; }
int cublasLtMatmulPreferenceDestroy(void* preference) { (void)preference; return 0; }
int cublasLtMatmulPreferenceSetAttribute(void* preference, int which, const void* value, size_t bytes) { (void)preference; (void)value; return bytes == (which == 1 ? 8u : 4u) ? 0 : 7; }
static u64 searches;
u64 fake_searches(void) { return searches; }
int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference, int wanted, void* results, int* count) {
    (void)handle; (void)operation; (void)a; (void)b; (void)c; (void)d; (void)preference;
    __sync_add_and_fetch(&searches, 1);
    memset(results, 0, 96);
    *count = wanted;
    return 0;
}
int cublasLtMatmul(void* handle, Operation* o, const float* alpha, u64 a, Layout* la, u64 b, Layout* lb, const float* beta, u64 c, Layout* lc, u64 d, Layout* ld, const void* algorithm, void* workspace, size_t bytes, Stream* stream) {
    (void)handle; (void)algorithm; (void)workspace; (void)bytes;
    u64 k = o->ta ? la->rows : la->columns;
    if ((o->ta ? la->columns : la->rows) != ld->rows || (o->tb ? lb->rows : lb->columns) != ld->columns || k != (o->tb ? lb->columns : lb->rows)) return 7;
    Item item = { .kind = PRODUCT, .product = { o->ta, o->tb, o->epilogue, ld->batch, o->bias, *alpha, *beta, a, b, c, d, la->leading, lb->leading, lc->leading, ld->leading, la->stride, lb->stride, lc->stride, ld->stride, ld->rows, ld->columns, k } };
    return give(stream, item) ? 13 : 0;
}
