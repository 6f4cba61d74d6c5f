// Ways to compute a layer, and which of them is the fastest.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "values.h"

constexpr size_t WORKSPACE = 32 << 20;

__global__ void finish(float *values, const float *bias, int count, bool relu) {
    int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= count) return;
    float value = values[place] + (bias ? bias[place] : 0.0f);
    values[place] = relu ? fmaxf(value, 0.0f) : value;
}

// What a thread launches with.
struct Lane {
    cudaStream_t stream;
    cublasLtHandle_t lt;
    cublasHandle_t blas;
    void *workspace;

    Lane() {
        DO(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        DO(cublasLtCreate(&lt));
        DO(cublasCreate(&blas));
        DO(cudaMalloc(&workspace, WORKSPACE));
        DO(cublasSetStream(blas, stream));
        DO(cublasSetWorkspace(blas, workspace, WORKSPACE));
    }
};

// One way to compute a layer: in column-major words, answer = op(weights) · input.
using Product = std::function<void(const Lane &, const float *input, float *answer)>;

inline Product vector_product(const Layer &layer, bool turned) {
    return [&layer, turned](const Lane &lane, const float *input, float *answer) {
        int in = layer.shape.in, out = layer.shape.out;
        float one = 1.0f, zero = 0.0f;
        auto operation = turned ? CUBLAS_OP_N : CUBLAS_OP_T;
        int rows = turned ? out : in, columns = turned ? in : out;
        DO(cublasSgemv(lane.blas, operation, rows, columns, &one, layer.weights[turned], rows, input, 1, &zero,
                       answer, 1));
        if (layer.shape.bias || layer.shape.relu)
            finish<<<(out + 255) / 256, 256, 0, lane.stream>>>(answer, layer.bias_on_device, out,
                                                               layer.shape.relu);
        DO(cudaGetLastError());
    };
}

// What the library proposes for a layer, bias and ReLU included.
inline void propose(const Lane &lane, const Layer &layer, int batch, bool turned, std::vector<Product> &found) {
    int in = layer.shape.in, out = layer.shape.out;
    cublasLtMatmulDesc_t operation;
    DO(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    auto set = [&](cublasLtMatmulDescAttributes_t name, const auto &value) {
        DO(cublasLtMatmulDescSetAttribute(operation, name, &value, sizeof(value)));
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, turned ? CUBLAS_OP_N : CUBLAS_OP_T);
    bool bias = layer.shape.bias, relu = layer.shape.relu;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, bias && relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                       : bias       ? CUBLASLT_EPILOGUE_BIAS
                                       : relu       ? CUBLASLT_EPILOGUE_RELU
                                                    : CUBLASLT_EPILOGUE_DEFAULT);
    if (bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, layer.bias_on_device);
    cublasLtMatrixLayout_t a, b, d;
    int rows = turned ? out : in, columns = turned ? in : out;
    DO(cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, rows, columns, rows));
    DO(cublasLtMatrixLayoutCreate(&b, CUDA_R_32F, in, batch, in));
    DO(cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, out, batch, out));
    cublasLtMatmulPreference_t preference;
    DO(cublasLtMatmulPreferenceCreate(&preference));
    size_t most = WORKSPACE;
    DO(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                            sizeof(most)));
    cublasLtMatmulHeuristicResult_t results[16];
    int count = 0;
    if (cublasLtMatmulAlgoGetHeuristic(lane.lt, operation, a, b, d, d, preference, 16, results, &count) !=
        CUBLAS_STATUS_SUCCESS)
        return;
    for (int index = 0; index < count; index++) {
        if (results[index].state != CUBLAS_STATUS_SUCCESS) continue;
        auto algorithm = results[index].algo;
        found.push_back([=, &layer](const Lane &lane, const float *input, float *answer) {
            float one = 1.0f, zero = 0.0f;
            DO(cublasLtMatmul(lane.lt, operation, &one, layer.weights[turned], a, input, b, &zero, answer,
                              d, answer, d, &algorithm, lane.workspace, WORKSPACE, lane.stream));
        });
    }
}

inline cudaGraphExec_t captured(const Lane &lane, const std::function<void()> &work) {
    DO(cudaStreamBeginCapture(lane.stream, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
        work();
    } catch (...) {
        cudaStreamEndCapture(lane.stream, &graph);
        throw;
    }
    DO(cudaStreamEndCapture(lane.stream, &graph));
    cudaGraphExec_t made;
    DO(cudaGraphInstantiate(&made, graph, 0));
    DO(cudaGraphDestroy(graph));
    return made;
}

inline float milliseconds(const Lane &lane, const Product &product, const float *input, float *answer) {
    auto graph = captured(lane, [&] {
        for (int repeat = 0; repeat < 20; repeat++) product(lane, input, answer);
    });
    cudaEvent_t before, after;
    DO(cudaEventCreate(&before));
    DO(cudaEventCreate(&after));
    float best = std::numeric_limits<float>::infinity();
    for (int trial = 0; trial < 4; trial++) {
        float time;
        DO(cudaEventRecord(before, lane.stream));
        DO(cudaGraphLaunch(graph, lane.stream));
        DO(cudaEventRecord(after, lane.stream));
        DO(cudaEventSynchronize(after));
        DO(cudaEventElapsedTime(&time, before, after));
        // The first launch also moves the graph to the device.
        if (trial > 0) best = std::min(best, time);
    }
    DO(cudaEventDestroy(before));
    DO(cudaEventDestroy(after));
    DO(cudaGraphExecDestroy(graph));
    return best;
}

inline Product fastest(const Lane &lane, const Layer &layer, int batch) {
    std::vector<Product> found;
    for (bool turned : {false, true}) {
        propose(lane, layer, batch, turned, found);
        if (batch == 1) found.push_back(vector_product(layer, turned));
    }
    std::vector<float> values(size_t(batch) * layer.shape.in, 0.5f);
    float *input = on_device(values), *answer = on_device<float>(size_t(batch) * layer.shape.out);
    const Product *best = nullptr;
    float least = std::numeric_limits<float>::infinity();
    std::string last = "no proposal";
    for (const Product &product : found) {
        try {
            float time = milliseconds(lane, product, input, answer);
            if (time < least) least = time, best = &product;
        } catch (const std::exception &problem) {
            last = problem.what(); // It was proposed, but does not run: another one will.
        }
    }
    DO(cudaFree(input));
    DO(cudaFree(answer));
    if (!best) throw std::runtime_error("nothing computes a layer: " + last);
    return *best;
}
