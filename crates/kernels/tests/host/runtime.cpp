// Runs kernels of the host dialect: a fiber per thread of a group, one group at a time.
//
// Fibers take turns only where a kernel waits for others, so a run is a function of kernel, data, order
// and seed. Sanitizers get a notice of every switch.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#include <sanitizer/common_interface_defs.h>
#endif
#endif
#ifdef WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if !defined(WITH_ASAN) && !defined(WITH_TSAN)
#define STACKS_STAY 1
#include <mutex>
#endif

// Both as in the prelude of the host dialect.
struct Thread {
    uint32_t group, group_y, group_z, groups, groups_y, groups_z, index, count, lane, simd;
};
struct HostCall {
    Thread thread;
    uint64_t buffers[31];
    uint64_t params;
};

// Saves what a call must keep, and goes on where the other stack left off.
asm(R"(
.text
.globl host_switch
.hidden host_switch
host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
extern "C" void host_switch(void** save, void* load);

namespace {
constexpr size_t STACK = 256 * 1024;
constexpr uint32_t LANES = 32, WIDEST = 16;

enum class State { Ready, AtBarrier, AtExchange, Done };
struct Fiber {
    void* sp;
    char* stack;
    State state;
    HostCall call;
    const void* site;
    void* fake_stack;
    void* tsan;
};
// Two sets of slots: a fast lane may be one exchange ahead of a slow one that still reads.
struct SimdGroup {
    uint32_t arrived, round, size;
    alignas(16) char slots[2][LANES * WIDEST];
};
// Stacks of fibers, for the thread that runs them. A thread that ends leaves them to others, since fresh memory takes longer
// than most kernels run. Not where a sanitizer remembers who used it.
struct Stacks {
    std::vector<char*> own;
    void have(size_t count) {
#ifdef STACKS_STAY
        std::lock_guard<std::mutex> lock(left_lock());
        while (own.size() < count && !left().empty()) {
            own.push_back(left().back());
            left().pop_back();
        }
#endif
        while (own.size() < count) own.push_back((char*)aligned_alloc(64, STACK));
    }
    ~Stacks() {
#ifdef STACKS_STAY
        std::lock_guard<std::mutex> lock(left_lock());
        left().insert(left().end(), own.begin(), own.end());
#else
        for (char* stack : own) free(stack);
#endif
    }
#ifdef STACKS_STAY
    // Never destroyed: threads may end after them.
    static std::vector<char*>& left() {
        static auto* stacks = new std::vector<char*>;
        return *stacks;
    }
    static std::mutex& left_lock() {
        static auto* lock = new std::mutex;
        return *lock;
    }
#endif
};
struct Runtime {
    std::vector<Fiber> fibers;
    std::vector<SimdGroup> simds;
    Stacks stacks;
    Fiber* current;
    void* main_sp;
    void (*kernel)(const HostCall*);
    // What the threads of a group share.
    char *shared_begin, *shared_end;
    uint32_t alive, at_barrier, barrier_round;
    const char* error;
    const void* main_bottom;
    size_t main_size;
    void* main_fake_stack;
    void* main_tsan;
    char barrier_tags[2], start_tag, end_tag;
};
thread_local Runtime runtime;

// Switches are written out where they happen: a fiber never moves between system threads.
void leave(bool for_good) {
    Runtime& r = runtime;
    Fiber* me = r.current;
    (void)for_good;
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(for_good ? nullptr : &me->fake_stack, r.main_bottom, r.main_size);
#endif
#ifdef WITH_TSAN
    __tsan_release(&r.end_tag);
    __tsan_switch_to_fiber(r.main_tsan, __tsan_switch_to_fiber_no_sync);
#endif
    host_switch(&me->sp, r.main_sp);
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(me->fake_stack, &r.main_bottom, &r.main_size);
#endif
}

void enter(Fiber& fiber) {
    Runtime& r = runtime;
    r.current = &fiber;
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(&r.main_fake_stack, fiber.stack, STACK);
#endif
#ifdef WITH_TSAN
    __tsan_switch_to_fiber(fiber.tsan, __tsan_switch_to_fiber_no_sync);
#endif
    host_switch(&r.main_sp, fiber.sp);
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(r.main_fake_stack, nullptr, nullptr);
#endif
}

void fiber_main() {
    Runtime& r = runtime;
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &r.main_bottom, &r.main_size);
#endif
#ifdef WITH_TSAN
    __tsan_acquire(&r.start_tag);
#endif
    r.kernel(&r.current->call);
    r.current->state = State::Done;
    r.alive--;
    leave(true);
    abort();
}

uint64_t next_random(uint64_t& state) {
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void shuffle(std::vector<uint32_t>& order, uint64_t& seed) {
    for (size_t i = order.size(); i > 1; i--) {
        std::swap(order[i - 1], order[next_random(seed) % i]);
    }
}

enum Order { FORWARD, BACKWARD, SHUFFLED, ADVERSARIAL };

// Lets every fiber that can run do so until it waits or ends.
void turn(std::vector<uint32_t>& order, int kind, uint64_t& seed) {
    Runtime& r = runtime;
    if (kind == SHUFFLED) shuffle(order, seed);
    if (kind != ADVERSARIAL) {
        for (uint32_t i : order) {
            if (r.fibers[i].state == State::Ready) enter(r.fibers[i]);
        }
        return;
    }
    // One simd group goes as far as it can before the next starts.
    uint32_t simds = r.simds.size(), first = next_random(seed) % simds;
    for (uint32_t n = 0; n < simds; n++) {
        uint32_t simd = (first + n) % simds;
        for (bool again = true; again;) {
            again = false;
            for (uint32_t i = simd * LANES; i < (simd + 1) * LANES; i++) {
                if (r.fibers[i].state == State::Ready) {
                    enter(r.fibers[i]);
                    again = true;
                }
            }
        }
    }
}

// Opens the barrier when all threads are there; false when nothing can go on.
bool release(uint32_t threads) {
    Runtime& r = runtime;
    if (r.at_barrier == 0) {
        r.error = "threads wait for lanes that do not come: a simd operation in divergent code";
        return false;
    }
    if (r.at_barrier != threads) {
        r.error = r.at_barrier == r.alive ? "a barrier was not reached by threads that had returned"
                                          : "a barrier was not reached by threads that wait elsewhere";
        return false;
    }
    for (Fiber& fiber : r.fibers) {
        if (fiber.site != r.fibers[0].site) {
            r.error = "threads wait at different barriers";
            return false;
        }
    }
    for (Fiber& fiber : r.fibers) fiber.state = State::Ready;
    r.at_barrier = 0;
    r.barrier_round++;
    return true;
}

void spoil() {
#ifdef SPOIL
    Runtime& r = runtime;
    if (r.shared_begin < r.shared_end) memset(r.shared_begin, 0xcd, r.shared_end - r.shared_begin);
#endif
}

bool run_group(const HostCall& call, uint32_t threads, int kind, uint64_t& seed) {
    Runtime& r = runtime;
    // Nobody may count on what the last group left; where that would take long, the last launch.
    if (r.shared_end - r.shared_begin < 65536) spoil();
    r.alive = threads;
    r.at_barrier = 0;
    for (SimdGroup& simd : r.simds) simd.arrived = 0;
#ifdef WITH_TSAN
    r.main_tsan = __tsan_get_current_fiber();
    __tsan_release(&r.start_tag);
#endif
    for (uint32_t i = 0; i < threads; i++) {
        Fiber& fiber = r.fibers[i];
        fiber.state = State::Ready;
        fiber.call = call;
        fiber.call.thread.index = i;
        fiber.call.thread.count = threads;
        fiber.call.thread.lane = i % LANES;
        fiber.call.thread.simd = i / LANES;
        fiber.stack = r.stacks.own[i];
        fiber.fake_stack = nullptr;
#ifdef WITH_TSAN
        fiber.tsan = __tsan_create_fiber(0);
#endif
        void** sp = (void**)(fiber.stack + STACK);
        *--sp = nullptr;
        *--sp = (void*)fiber_main;
        for (int k = 0; k < 6; k++) *--sp = nullptr;
        fiber.sp = sp;
    }
    std::vector<uint32_t> order(threads);
    for (uint32_t i = 0; i < threads; i++) order[i] = kind == BACKWARD ? threads - 1 - i : i;
    bool held = true;
    while (r.alive > 0 && held) {
        turn(order, kind, seed);
        if (r.error) held = false;
        bool ready = false;
        for (Fiber& fiber : r.fibers) ready |= fiber.state == State::Ready;
        if (held && r.alive > 0 && !ready) held = release(threads);
    }
#ifdef WITH_TSAN
    __tsan_acquire(&r.end_tag);
    for (uint32_t i = 0; i < threads; i++) __tsan_destroy_fiber(r.fibers[i].tsan);
#endif
    return held;
}
} // namespace

extern "C" {
void host_barrier() {
    Runtime& r = runtime;
#ifdef WITH_TSAN
    char* tag = &r.barrier_tags[r.barrier_round & 1];
    __tsan_release(tag);
#endif
    r.current->site = __builtin_return_address(0);
    r.current->state = State::AtBarrier;
    r.at_barrier++;
    leave(false);
#ifdef WITH_TSAN
    __tsan_acquire(tag);
#endif
}

uint32_t host_lane() { return runtime.current->call.thread.lane; }

const void* host_exchange(const void* value, uint32_t size) {
    Runtime& r = runtime;
    Fiber* me = r.current;
    SimdGroup& simd = r.simds[me->call.thread.simd];
    if (size > WIDEST) abort();
    char* slots = simd.slots[simd.round & 1];
    memcpy(slots + me->call.thread.lane * size, value, size);
    if (simd.arrived > 0 && simd.size != size) r.error = "lanes are at different simd operations";
    simd.size = size;
#ifdef WITH_TSAN
    __tsan_release(slots);
#endif
    if (++simd.arrived == LANES) {
        simd.arrived = 0;
        simd.round++;
        for (uint32_t i = 0; i < LANES; i++) {
            Fiber& fiber = r.fibers[me->call.thread.simd * LANES + i];
            if (&fiber != me) fiber.state = State::Ready;
        }
    } else {
        me->state = State::AtExchange;
        leave(false);
    }
#ifdef WITH_TSAN
    __tsan_acquire(slots);
#endif
    return slots;
}

void host_simd_barrier() {
    char nothing = 0;
    host_exchange(&nothing, 1);
}

uint32_t host_atomic_cas(uint64_t at, uint32_t expected, uint32_t desired) {
    __atomic_compare_exchange_n((uint32_t*)at, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

uint32_t host_atomic_add(uint64_t at, uint32_t value) {
    return __atomic_fetch_add((uint32_t*)at, value, __ATOMIC_RELAXED);
}

// Runs all groups; gives null, or what the kernel did wrong.
__attribute__((visibility("default"))) const char*
host_dispatch(void (*kernel)(const HostCall*), const uint64_t* shared, const uint32_t* groups, uint32_t threads,
              const uint64_t* buffers, uint32_t count, const void* params, int order, uint64_t seed) {
    Runtime& r = runtime;
    if (threads == 0 || threads % LANES != 0 || threads > 1024) return "a group is not a multiple of 32 threads";
    if (count > 31) return "too many buffers";
    r.kernel = kernel;
    r.shared_begin = (char*)shared[0];
    r.shared_end = (char*)shared[1];
    spoil();
    r.error = nullptr;
    r.fibers.resize(threads);
    r.simds.resize(threads / LANES);
    if (r.stacks.own.size() < threads) r.stacks.have(threads);
    HostCall call = {};
    for (uint32_t i = 0; i < count; i++) call.buffers[i] = buffers[i];
    call.params = (uint64_t)params;
    call.thread.groups = groups[0];
    call.thread.groups_y = groups[1];
    call.thread.groups_z = groups[2];
    uint64_t total = (uint64_t)groups[0] * groups[1] * groups[2];
    for (uint64_t n = 0; n < total; n++) {
        // Groups must not depend on each other, so those at the end may come first.
        uint64_t group = order % 2 == BACKWARD ? total - 1 - n : n;
        call.thread.group = group % groups[0];
        call.thread.group_y = group / groups[0] % groups[1];
        call.thread.group_z = group / groups[0] / groups[1];
        if (!run_group(call, threads, order, seed)) return r.error ? r.error : "a group got stuck";
    }
    return nullptr;
}
}
