// The workloads, their weights, and what the answers must be.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "support.h"

constexpr double TOLERANCE = 1e-5;

struct Shape { int in, out; bool bias, relu; };
struct Workload { std::string name; int batch; std::vector<Shape> layers; int checked_rows; };

inline const std::vector<Workload> WORKLOADS = {
    {"mm", 512, {{512, 512, false, true}}, 32},
    {"mlp", 1, {{512, 1024, true, true}, {1024, 1024, true, true}, {1024, 512, true, false}}, 1},
    {"mlp-large", 64, {{2048, 2048, true, true}, {2048, 2048, true, false}}, 4},
};

struct Random {
    uint64_t state;
    double uniform() {
        state += 0x9e3779b97f4a7c15;
        uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return double((z ^ (z >> 31)) >> 11) * 0x1p-53;
    }
    double normal() { return std::sqrt(-2.0 * std::log(1.0 - uniform())) * std::cos(2.0 * M_PI * uniform()); }
};

struct Layer {
    Shape shape;
    std::vector<float> weight, bias;
    // On the device: rows of outputs as PyTorch has them, and rows of inputs.
    float *weights[2], *bias_on_device = nullptr;

    Layer(Shape shape, Random &random) : shape(shape), weight(size_t(shape.in) * shape.out) {
        double bound = 1.0 / std::sqrt(double(shape.in));
        auto draw = [&] { return float((2.0 * random.uniform() - 1.0) * bound); };
        std::generate(weight.begin(), weight.end(), draw);
        std::vector<float> turned(weight.size());
        for (int row = 0; row < shape.out; row++)
            for (int column = 0; column < shape.in; column++)
                turned[size_t(column) * shape.out + row] = weight[size_t(row) * shape.in + column];
        weights[0] = on_device(weight);
        weights[1] = on_device(turned);
        if (!shape.bias) return;
        bias.resize(shape.out);
        std::generate(bias.begin(), bias.end(), draw);
        bias_on_device = on_device(bias);
    }
};

// One input, and what some rows of the answer must be.
struct Example {
    std::vector<float> input;
    std::vector<int> rows;
    std::vector<double> answers;
};

inline Example example(const Workload &workload, const std::vector<Layer> &layers, int seed) {
    Example made;
    Random random{uint64_t(seed) * 7919 + 17};
    int columns = workload.layers.front().in;
    made.input.resize(size_t(workload.batch) * columns);
    for (float &value : made.input) value = float(random.normal());
    // Other rows for other inputs, so that all together cover the batch.
    for (int index = 0; index < workload.checked_rows; index++) {
        int row = (seed + index * workload.batch / workload.checked_rows) % workload.batch;
        std::vector<double> values(made.input.begin() + size_t(row) * columns,
                                   made.input.begin() + size_t(row + 1) * columns);
        for (const Layer &layer : layers) {
            std::vector<double> next(layer.shape.out);
            for (int out = 0; out < layer.shape.out; out++) {
                const float *weight = &layer.weight[size_t(out) * layer.shape.in];
                double sum = layer.shape.bias ? layer.bias[out] : 0.0;
                for (int in = 0; in < layer.shape.in; in++) sum += weight[in] * values[in];
                next[out] = layer.shape.relu ? std::max(sum, 0.0) : sum;
            }
            values = std::move(next);
        }
        made.rows.push_back(row);
        made.answers.insert(made.answers.end(), values.begin(), values.end());
    }
    return made;
}

inline bool is_right(const Example &example, const float *answer, size_t count, int columns) {
    double wrong = 0.0, right = 0.0;
    for (size_t index = 0; index < example.answers.size(); index++) {
        double expected = example.answers[index];
        double found = answer[size_t(example.rows[index / columns]) * columns + index % columns];
        wrong += (found - expected) * (found - expected);
        right += expected * expected;
    }
    bool written = std::all_of(answer, answer + count, [](float value) { return std::isfinite(value); });
    return written && right > 0.0 && std::sqrt(wrong / right) < TOLERANCE;
}
