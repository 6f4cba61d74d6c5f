// What one thread owns, and one call.
#pragma once

#include <atomic>
#include <sched.h>
#include <thread>

#include "products.h"

constexpr int INPUTS = 2;
// Up to here `flag` moves values with a kernel of one block, beyond with the copy engines.
constexpr size_t SMALL = 64 << 10;

enum WaitMode { SYNC, FLAG, WAYS };
inline const char *const WAY_NAMES[WAYS] = {"sync", "flag"};

__global__ void fetch(float4 *to, const float4 *from, int count) {
    for (int place = threadIdx.x; place < count; place += blockDim.x) to[place] = from[place];
}

// Copies `count` values to the host, then says so there. One block, so that the barrier orders all copies.
__global__ void deliver(float4 *to, const float4 *from, int count, unsigned *calls, volatile unsigned *flag) {
    for (int place = threadIdx.x; place < count; place += blockDim.x) to[place] = from[place];
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) *flag = ++*calls;
}

struct Model {
    const Workload &workload;
    bool from_host;
    std::vector<Layer> layers;
    std::vector<Product> products;
    std::vector<Example> examples;
    size_t input_count, answer_count;

    Model(const Workload &workload, bool from_host, int threads) : workload(workload), from_host(from_host) {
        Random random{1};
        layers.reserve(workload.layers.size());
        for (Shape shape : workload.layers) layers.emplace_back(shape, random);
        Lane lane;
        for (const Layer &layer : layers) products.push_back(fastest(lane, layer, workload.batch));
        input_count = size_t(workload.batch) * workload.layers.front().in;
        answer_count = size_t(workload.batch) * workload.layers.back().out;
        examples.resize(threads + INPUTS - 1);
        std::atomic<size_t> next{0};
        std::vector<std::thread> helpers;
        for (unsigned helper = 0; helper < std::max(1u, std::thread::hardware_concurrency()); helper++)
            helpers.emplace_back([&] {
                for (size_t seed; (seed = next++) < examples.size();)
                    examples[seed] = example(workload, layers, int(seed));
            });
        for (auto &helper : helpers) helper.join();
    }
};

// A caller: what one thread owns.
class Caller {
    const Model &model;
    int thread;
    Lane lane;
    float *inputs[INPUTS], *inputs_on_device[INPUTS], *answer;
    std::vector<float *> values;
    unsigned *calls;
    volatile unsigned *flag;
    unsigned expected = 0;
    cudaGraphExec_t graphs[WAYS][INPUTS];

    void enqueue(WaitMode way, int index) {
        size_t in = model.input_count * sizeof(float), out = model.answer_count * sizeof(float);
        if (model.from_host && way == FLAG && in <= SMALL)
            fetch<<<1, 512, 0, lane.stream>>>((float4 *)inputs_on_device[index], (const float4 *)inputs[index],
                                              int(in / sizeof(float4)));
        else if (model.from_host)
            DO(cudaMemcpyAsync(inputs_on_device[index], inputs[index], in, cudaMemcpyHostToDevice,
                               lane.stream));
        const float *input = inputs_on_device[index];
        for (size_t layer = 0; layer < model.products.size(); layer++) {
            model.products[layer](lane, input, values[layer]);
            input = values[layer];
        }
        bool small = way == FLAG && out <= SMALL;
        if (!small) DO(cudaMemcpyAsync(answer, input, out, cudaMemcpyDeviceToHost, lane.stream));
        if (way == FLAG)
            deliver<<<1, 512, 0, lane.stream>>>((float4 *)answer, (const float4 *)input,
                                                small ? int(out / sizeof(float4)) : 0, calls, flag);
        DO(cudaGetLastError());
    }

    void wait_for_flag() {
        auto started = Clock::now();
        for (unsigned spins = 0; *flag != expected; spins++) {
            __builtin_ia32_pause();
            if (spins % 1024 != 1023) continue;
            // With more callers than cores somebody else may need this one.
            sched_yield();
            if (spins % (1 << 20) == (1 << 20) - 1 && Clock::now() - started > std::chrono::seconds(10)) {
                DO(cudaStreamQuery(lane.stream));
                throw std::runtime_error("no flag after 10 seconds");
            }
        }
        std::atomic_thread_fence(std::memory_order_acquire);
    }

  public:
    std::vector<float> latencies;
    Clock::time_point started, ended;
    int mismatches = 0;

    Caller(const Model &model, int thread) : model(model), thread(thread) {
        for (int index = 0; index < INPUTS; index++) {
            const auto &input = model.examples[thread + index].input;
            inputs[index] = pinned<float>(input.size());
            std::copy(input.begin(), input.end(), inputs[index]);
            inputs_on_device[index] = on_device(input);
        }
        answer = pinned<float>(model.answer_count);
        for (const Layer &layer : model.layers)
            values.push_back(on_device<float>(size_t(model.workload.batch) * layer.shape.out));
        calls = on_device<unsigned>(1);
        flag = pinned<unsigned>(1);
    }

    // Once nobody makes a caller any more: memory is better not asked for while somebody captures.
    void capture() {
        for (int way = 0; way < WAYS; way++)
            for (int index = 0; index < INPUTS; index++)
                graphs[way][index] = captured(lane, [&] { enqueue(WaitMode(way), index); });
    }

    void call(WaitMode way, int index) {
        DO(cudaGraphLaunch(graphs[way][index], lane.stream));
        if (way == FLAG) {
            expected++;
            wait_for_flag();
        } else {
            DO(cudaStreamSynchronize(lane.stream));
        }
    }

    // Calls once with every input, with nothing left of earlier answers to be mistaken for the new one.
    void examine(WaitMode way) {
        for (int index = 0; index < INPUTS; index++) {
            size_t bytes = model.answer_count * sizeof(float);
            DO(cudaMemsetAsync(values.back(), 0xff, bytes, lane.stream));
            size_t input_bytes = model.from_host ? model.input_count * sizeof(float) : 0;
            DO(cudaMemsetAsync(inputs_on_device[index], 0xff, input_bytes, lane.stream));
            DO(cudaStreamSynchronize(lane.stream));
            std::memset(answer, 0xff, bytes);
            call(way, index);
            int columns = model.workload.layers.back().out;
            mismatches += !is_right(model.examples[thread + index], answer, model.answer_count, columns);
        }
    }

    void prepare(WaitMode way) {
        latencies.clear();
        latencies.reserve(1 << 18);
        mismatches = 0;
        for (int repeat = 0; repeat < 20; repeat++) call(way, repeat % INPUTS);
        examine(way);
    }

    void call_for(WaitMode way, std::chrono::duration<double> time) {
        started = Clock::now();
        for (int index = 0;; index = (index + 1) % INPUTS) {
            auto before = Clock::now();
            call(way, index);
            ended = Clock::now();
            latencies.push_back(std::chrono::duration<float, std::micro>(ended - before).count());
            if (ended - started >= time) break;
        }
    }
};
