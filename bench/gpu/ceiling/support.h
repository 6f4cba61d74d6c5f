// Checked calls, and memory that lives as long as the process.
#pragma once

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

using Clock = std::chrono::steady_clock;

inline void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}
inline void check(cublasStatus_t status, const char *what) {
    if (status != CUBLAS_STATUS_SUCCESS)
        throw std::runtime_error(std::string(what) + ": " + cublasGetStatusString(status));
}
#define DO(call) check((call), #call)

// Both are done when they return: the streams here do not wait for the default stream.
template <class T> T *on_device(size_t count) {
    void *memory = nullptr;
    DO(cudaMalloc(&memory, count * sizeof(T)));
    DO(cudaMemset(memory, 0, count * sizeof(T)));
    DO(cudaStreamSynchronize(cudaStreamLegacy));
    return static_cast<T *>(memory);
}
inline float *on_device(const std::vector<float> &values) {
    float *memory = on_device<float>(values.size());
    DO(cudaMemcpy(memory, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    DO(cudaStreamSynchronize(cudaStreamLegacy));
    return memory;
}
template <class T> T *pinned(size_t count) {
    void *memory = nullptr;
    DO(cudaHostAlloc(&memory, count * sizeof(T), cudaHostAllocDefault));
    std::memset(memory, 0, count * sizeof(T));
    return static_cast<T *>(memory);
}
