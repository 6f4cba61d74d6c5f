// What plain C++ with cuBLAS and CUDA graphs reaches on the workloads of `millstream bench`.
//
//     nvcc -O3 -std=c++20 -arch=native ceiling.cu -lcublasLt -lcublas -o ceiling
//     ./ceiling --workload mlp,mlp-large,mm --threads 1,8,31 --seconds 1 [--input host|device]
//               [--way sync,flag]
//
// Threads share the weights. Each has a non-blocking stream, handles, a workspace, pinned buffers and graphs
// of its own, captured in thread-local mode, and waits for every call. As in `millstream bench` a thread uses
// two inputs in turn. Every layer runs what proved fastest among what cuBLASLt proposes, with weights either
// way round, and for one row also cuBLAS's product of a matrix and a vector.
//
// It waits in two ways, and each gives a row: `sync` copies with the copy engines and calls
// cudaStreamSynchronize; `flag` copies small values with a kernel whose last act is to raise a flag in host
// memory, on which the caller spins. Answers are checked against sums in double precision on the CPU, before
// and after the timed calls; exit status 1 if one is wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <latch>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ceiling/caller.h"

// Runs something for every caller in a thread of its own. Its exception becomes the caller's problem.
template <class Work> static void in_threads(int threads, std::vector<std::string> &problems, Work work) {
    std::vector<std::thread> running;
    problems.assign(threads, "");
    for (int thread = 0; thread < threads; thread++)
        running.emplace_back([&, thread] {
            try {
                work(thread);
            } catch (const std::exception &error) {
                problems[thread] = error.what();
            }
        });
    for (auto &thread : running) thread.join();
    for (const auto &problem : problems)
        if (!problem.empty()) throw std::runtime_error(problem);
}

struct Row { std::string text; bool right; };

static Row measure(const Model &model, std::vector<std::unique_ptr<Caller>> &callers, int threads, WaitMode way,
                   double seconds) {
    std::vector<std::string> problems;
    int known = 0;
    while (known < threads && callers[known]) known++;
    in_threads(threads, problems, [&](int thread) {
        if (thread >= known) callers[thread] = std::make_unique<Caller>(model, thread);
    });
    in_threads(threads, problems, [&](int thread) {
        if (thread >= known) callers[thread]->capture();
    });
    in_threads(threads, problems, [&](int thread) { callers[thread]->prepare(way); });
    std::latch start(threads);
    in_threads(threads, problems, [&](int thread) {
        start.arrive_and_wait();
        callers[thread]->call_for(way, std::chrono::duration<double>(seconds));
    });
    in_threads(threads, problems, [&](int thread) { callers[thread]->examine(way); });

    std::vector<float> latencies;
    int mismatches = 0;
    auto first = callers[0]->started, last = callers[0]->ended;
    for (int thread = 0; thread < threads; thread++) {
        const Caller &caller = *callers[thread];
        latencies.insert(latencies.end(), caller.latencies.begin(), caller.latencies.end());
        mismatches += caller.mismatches;
        first = std::min(first, caller.started);
        last = std::max(last, caller.ended);
    }
    std::sort(latencies.begin(), latencies.end());
    auto percentile = [&](double share) {
        return latencies[size_t(std::ceil(double(latencies.size()) * share)) - 1];
    };
    char text[512];
    std::snprintf(text, sizeof(text),
                  "{\"workload\": \"%s\", \"way\": \"%s\", \"threads\": %d, \"calls_per_s\": %.3f, "
                  "\"p50_us\": %.3f, \"p99_us\": %.3f, \"errors\": 0, \"mismatches\": %d}",
                  model.workload.name.c_str(), WAY_NAMES[way], threads,
                  double(latencies.size()) / std::chrono::duration<double>(last - first).count(),
                  percentile(0.5), percentile(0.99), mismatches);
    return {text, mismatches == 0};
}

static std::vector<std::string> parts(const std::string &text) {
    std::vector<std::string> found;
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) found.push_back(part);
    return found;
}

static int run(int count, char **words) {
    std::string workloads = "mlp,mlp-large,mm", threads = "1,2,4,8,16,31,64";
    std::string ways = "sync,flag", input = "host";
    double seconds = 1.0;
    for (int index = 1; index < count; index += 2) {
        std::string name = words[index], value = index + 1 < count ? words[index + 1] : "";
        if (value.empty()) throw std::runtime_error("no value for " + name);
        if (name == "--workload") workloads = value;
        else if (name == "--threads") threads = value;
        else if (name == "--seconds") seconds = std::stod(value);
        else if (name == "--input" && (value == "host" || value == "device")) input = value;
        else if (name == "--way") ways = value;
        else throw std::runtime_error("unknown option: " + name + " " + value);
    }
    std::vector<int> counts;
    for (const auto &part : parts(threads)) counts.push_back(std::stoi(part));
    if (counts.empty() || *std::min_element(counts.begin(), counts.end()) < 1 || !(seconds > 0.0))
        throw std::runtime_error("threads and seconds are above 0");

    cudaDeviceProp properties;
    int driver = 0, runtime = 0;
    DO(cudaGetDeviceProperties(&properties, 0));
    DO(cudaDriverGetVersion(&driver));
    DO(cudaRuntimeGetVersion(&runtime));
    std::string rows;
    bool right = true;
    for (const auto &name : parts(workloads)) {
        auto named = [&](const Workload &workload) { return workload.name == name; };
        auto found = std::find_if(WORKLOADS.begin(), WORKLOADS.end(), named);
        if (found == WORKLOADS.end()) throw std::runtime_error("unknown workload: " + name);
        int most = *std::max_element(counts.begin(), counts.end());
        Model model(*found, input == "host", most);
        std::vector<std::unique_ptr<Caller>> callers(most);
        for (int threads : counts)
            for (const auto &part : parts(ways)) {
                auto way = std::find(WAY_NAMES, WAY_NAMES + WAYS, part);
                if (way == WAY_NAMES + WAYS) throw std::runtime_error("unknown way: " + part);
                Row row = measure(model, callers, threads, WaitMode(way - WAY_NAMES), seconds);
                rows += (rows.empty() ? "" : ", ") + row.text;
                right = right && row.right;
            }
    }
    std::printf("{\"gpu\": \"%s\", \"cuda_driver\": %d, \"cuda_runtime\": %d, \"cublas\": %zu, "
                "\"input\": \"%s\", \"seconds\": %g, \"rows\": [%s]}\n",
                properties.name, driver, runtime, cublasLtGetVersion(), input.c_str(), seconds, rows.c_str());
    if (!right) std::fprintf(stderr, "ceiling: wrong answers\n");
    return right ? 0 : 1;
}

int main(int count, char **words) {
    try {
        return run(count, words);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "ceiling: %s\n", error.what());
        return 1;
    }
}
