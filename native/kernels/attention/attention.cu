// DIN's activation unit on a GPU, for two sigmoid layers and one score: one block per row, which loops over chunks of its events.
//
// A row has one query, so its first layer on [q, k, q - k, q * k] is one small matrix of its own,
//   q (Wq + Wd) + b, once,   and   k (Wk - Wd + diag(q) Wp)   for each event k,
// which the block computes first and keeps in shared memory. q Wd - k Wd may cancel here: see attention_layer.h.

#include "kernels/attention/attention.h"
#include "kernels/cuda.h"

namespace ctrlab {
namespace {

constexpr int kThreads = 128;
constexpr int kEvents = 16;  // per chunk
constexpr int kLayers = 3;

// The layers, or their gradients, as a kernel argument: the caller's array is in host memory.
template <class Layer>
struct Layers {
  Layer at[kLayers];

  explicit Layers(const Layer* layers) {
    for (int l = 0; l < kLayers; ++l) at[l] = layers[l];
  }
};

#define CTRLAB_FOR(i, count) for (int64_t i = threadIdx.x; i < (count); i += kThreads)

// Row b's own first layer: base [U] and matrix [C, U].
__device__ void FirstLayer(const AttentionInput& a, const DenseLayer& layer, int64_t b, float* base, float* matrix) {
  const int64_t C = a.width, U = layer.out;
  const float *Wq = layer.kernel, *Wk = Wq + C * U, *Wd = Wk + C * U, *Wp = Wd + C * U, *q = a.query + b * C;
  CTRLAB_FOR(j, U) {
    float sum = layer.bias[j];
    for (int64_t k = 0; k < C; ++k) sum += q[k] * (Wq[k * U + j] + Wd[k * U + j]);
    base[j] = sum;
  }
  CTRLAB_FOR(i, C * U) matrix[i] = Wk[i] - Wd[i] + q[i / U] * Wp[i];
}

// The softmax over scores[begin, end). Each thread reads all of them, because a history is short.
__device__ void Softmax(const float* scores, int64_t begin, int64_t end, float* greatest, float* sum) {
  *greatest = scores[begin];
  for (int64_t n = begin; n < end; ++n) *greatest = fmaxf(*greatest, scores[n]);
  *sum = 0;
  for (int64_t n = begin; n < end; ++n) *sum += expf(scores[n] - *greatest);
}

// kept [N, U + S]: the sigmoids' outputs; scores [N].
__global__ void Forward(AttentionInput a, Layers<DenseLayer> layers, float* scores, float* kept, float* weights,
                        float* attended) {
  const int64_t C = a.width, U = layers.at[0].out, S = layers.at[1].out;
  CTRLAB_SHARED(shared);
  float* matrix = shared;          // [C, U]
  float* second = matrix + C * U;  // [U, S]
  float* base = second + U * S;    // [U]
  float* keys = base + U;          // [events, C]
  float* h1 = keys + kEvents * C;  // [events, U]
  float* h2 = h1 + kEvents * U;    // [events, S]
  CTRLAB_FOR(i, U * S) second[i] = layers.at[1].kernel[i];
  for (int64_t b = blockIdx.x; b < a.rows; b += gridDim.x) {
    const int64_t begin = a.splits[b], end = a.splits[b + 1];
    __syncthreads();
    FirstLayer(a, layers.at[0], b, base, matrix);
    for (int64_t first = begin; first < end; first += kEvents) {
      const int64_t count = end - first < kEvents ? end - first : kEvents;
      __syncthreads();
      CTRLAB_FOR(i, count * C) keys[i] = a.keys[first * C + i];
      __syncthreads();
      CTRLAB_FOR(i, count * U) {
        const int64_t p = i / U, j = i % U;
        float sum = base[j];
        for (int64_t k = 0; k < C; ++k) sum += keys[p * C + k] * matrix[k * U + j];
        h1[i] = kept[(first + p) * (U + S) + j] = SigmoidOf(sum);
      }
      __syncthreads();
      CTRLAB_FOR(i, count * S) {
        const int64_t p = i / S, j = i % S;
        float sum = layers.at[1].bias[j];
        for (int64_t k = 0; k < U; ++k) sum += h1[p * U + k] * second[k * S + j];
        h2[i] = kept[(first + p) * (U + S) + U + j] = SigmoidOf(sum);
      }
      __syncthreads();
      CTRLAB_FOR(p, count) {
        float sum = layers.at[2].bias[0];
        for (int64_t k = 0; k < S; ++k) sum += h2[p * S + k] * layers.at[2].kernel[k];
        scores[first + p] = sum;
      }
    }
    __syncthreads();
    if (begin == end) {
      CTRLAB_FOR(k, C) attended[b * C + k] = 0;
      continue;
    }
    float greatest, sum;
    Softmax(scores, begin, end, &greatest, &sum);
    CTRLAB_FOR(i, end - begin) weights[begin + i] = expf(scores[begin + i] - greatest) / sum;
    CTRLAB_FOR(k, C) {
      float total = 0;
      for (int64_t n = begin; n < end; ++n) total += expf(scores[n] - greatest) * a.keys[n * C + k];
      attended[b * C + k] = total / sum;
    }
  }
}

// Blocks add to the kernels' gradients in any order, so the last bits may differ between runs.
__global__ void Backward(AttentionInput a, Layers<DenseLayer> layers, const float* weights, const float* kept,
                         const float* d_weights, const float* d_attended, AttentionGradient d, Layers<DenseGradient> d_layers) {
  const int64_t C = a.width, U = layers.at[0].out, S = layers.at[1].out;
  CTRLAB_SHARED(shared);
  float* matrix = shared;                   // [C, U], the row's first layer
  float* second = matrix + C * U;           // [U, S]
  float* base = second + U * S;             // [U], not used backward
  float* events = base + U;                 // [C, U]: sum over the row's events of key x d1
  float* sum_events = events + C * U;       // [C, U], over the block's rows
  float* sum_query = sum_events + C * U;    // [C, U]: query x d1
  float* sum_product = sum_query + C * U;   // [C, U]: query * key x d1
  float* sum_second = sum_product + C * U;  // [U, S]
  float* sum_first_bias = sum_second + U * S;
  float* sum_second_bias = sum_first_bias + U;
  float* sum_third = sum_second_bias + S;  // [S], and its bias
  float* row_d1 = sum_third + S + 1;       // [U]
  float* keys = row_d1 + U;                // [events, C]
  float* d1 = keys + kEvents * C;          // [events, U]
  float* d2 = d1 + kEvents * U;            // [events, S]
  float* d_score = d2 + kEvents * S;       // [events]
  CTRLAB_FOR(i, U * S) second[i] = layers.at[1].kernel[i];
  CTRLAB_FOR(i, 3 * C * U + U * S + U + 2 * S + 1) sum_events[i] = 0;
  for (int64_t b = blockIdx.x; b < a.rows; b += gridDim.x) {
    const int64_t begin = a.splits[b], end = a.splits[b + 1];
    const float* q = a.query + b * C;
    __syncthreads();
    FirstLayer(a, layers.at[0], b, base, matrix);
    CTRLAB_FOR(i, C * U) events[i] = 0;
    CTRLAB_FOR(j, U) row_d1[j] = 0;
    // The gradient of a weight: its own, and the one through the weighted sum.
    float mean = 0;
    for (int64_t n = begin; n < end; ++n) {
      float reaches = d_weights[n];
      for (int64_t k = 0; k < C; ++k) reaches += d_attended[b * C + k] * a.keys[n * C + k];
      mean += weights[n] * reaches;
    }
    for (int64_t first = begin; first < end; first += kEvents) {
      const int64_t count = end - first < kEvents ? end - first : kEvents;
      __syncthreads();
      CTRLAB_FOR(i, count * C) keys[i] = a.keys[first * C + i];
      __syncthreads();
      CTRLAB_FOR(p, count) {
        float reaches = d_weights[first + p];
        for (int64_t k = 0; k < C; ++k) reaches += d_attended[b * C + k] * keys[p * C + k];
        d_score[p] = weights[first + p] * (reaches - mean);
      }
      __syncthreads();
      CTRLAB_FOR(i, count * S) {
        const int64_t p = i / S, j = i % S;
        const float h = kept[(first + p) * (U + S) + U + j];
        d2[i] = d_score[p] * layers.at[2].kernel[j] * h * (1 - h);
      }
      __syncthreads();
      CTRLAB_FOR(i, count * U) {
        const int64_t p = i / U, j = i % U;
        const float h = kept[(first + p) * (U + S) + j];
        float sum = 0;
        for (int64_t m = 0; m < S; ++m) sum += d2[p * S + m] * second[j * S + m];
        d1[i] = sum * h * (1 - h);
      }
      __syncthreads();
      CTRLAB_FOR(i, count * C) {
        const int64_t p = i / C, k = i % C;
        float sum = weights[first + p] * d_attended[b * C + k];
        for (int64_t j = 0; j < U; ++j) sum += d1[p * U + j] * matrix[k * U + j];
        d.keys[(first + p) * C + k] = sum;
      }
      CTRLAB_FOR(i, C * U) {
        for (int64_t p = 0; p < count; ++p) events[i] += keys[p * C + i / U] * d1[p * U + i % U];
      }
      CTRLAB_FOR(j, U) {
        for (int64_t p = 0; p < count; ++p) row_d1[j] += d1[p * U + j];
      }
      CTRLAB_FOR(i, U * S) {
        for (int64_t p = 0; p < count; ++p) sum_second[i] += kept[(first + p) * (U + S) + i / S] * d2[p * S + i % S];
      }
      CTRLAB_FOR(j, S) {
        for (int64_t p = 0; p < count; ++p) {
          sum_second_bias[j] += d2[p * S + j];
          sum_third[j] += kept[(first + p) * (U + S) + U + j] * d_score[p];
        }
      }
      if (threadIdx.x == 0) {
        for (int64_t p = 0; p < count; ++p) sum_third[S] += d_score[p];
      }
    }
    __syncthreads();
    const float *Wq = layers.at[0].kernel, *Wd = Wq + 2 * C * U, *Wp = Wd + C * U;
    CTRLAB_FOR(k, C) {
      float sum = 0;
      for (int64_t j = 0; j < U; ++j) {
        sum += (Wq[k * U + j] + Wd[k * U + j]) * row_d1[j] + Wp[k * U + j] * events[k * U + j];
      }
      d.query[b * C + k] = sum;
    }
    CTRLAB_FOR(i, C * U) {
      sum_events[i] += events[i];
      sum_query[i] += q[i / U] * row_d1[i % U];
      sum_product[i] += q[i / U] * events[i];
    }
    CTRLAB_FOR(j, U) sum_first_bias[j] += row_d1[j];
  }
  __syncthreads();
  CTRLAB_FOR(i, C * U) {
    atomicAdd(&d_layers.at[0].kernel[i], sum_query[i]);
    atomicAdd(&d_layers.at[0].kernel[C * U + i], sum_events[i]);
    atomicAdd(&d_layers.at[0].kernel[2 * C * U + i], sum_query[i] - sum_events[i]);
    atomicAdd(&d_layers.at[0].kernel[3 * C * U + i], sum_product[i]);
  }
  CTRLAB_FOR(i, U * S) atomicAdd(&d_layers.at[1].kernel[i], sum_second[i]);
  CTRLAB_FOR(j, U) atomicAdd(&d_layers.at[0].bias[j], sum_first_bias[j]);
  CTRLAB_FOR(j, S) {
    atomicAdd(&d_layers.at[1].bias[j], sum_second_bias[j]);
    atomicAdd(&d_layers.at[2].kernel[j], sum_third[j]);
  }
  if (threadIdx.x == 0) atomicAdd(d_layers.at[2].bias, sum_third[S]);
}

int64_t Blocks(const AttentionInput& a, int64_t most) { return a.rows < most ? a.rows : most; }

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

// Like the structs, the arrays of layers are in host memory, because launches depend on their sizes. There must be three layers.
// scores [N] and kept [N, U + S] are scratch memory; the gradient needs kept. weights [N], attended [B, C].
CTRLAB_EXPORT int ctrlab_cuda_attention(const AttentionInput* input, float* scores, float* kept, float* weights, float* attended,
                                        void* stream) {
  if (input->layer_count != kLayers) return cudaErrorInvalidValue;
  const Layers<DenseLayer> layers(input->layers);
  const int64_t C = input->width, U = layers.at[0].out, S = layers.at[1].out;
  const size_t shared = (C * U + U * S + U + kEvents * (C + U + S)) * sizeof(float);
  return Launch(Forward, Blocks(*input, 1056), kThreads, shared, stream, *input, layers, scores, kept, weights, attended);
}

CTRLAB_EXPORT int ctrlab_cuda_attention_gradient(const AttentionInput* input, const float* weights, const float* kept,
                                                 const float* d_weights, const float* d_attended,
                                                 const AttentionGradient* gradient, void* stream) {
  if (input->layer_count != kLayers) return cudaErrorInvalidValue;
  const Layers<DenseLayer> layers(input->layers);
  const Layers<DenseGradient> d_layers(gradient->layers);
  for (int l = 0; l < kLayers; ++l) {
    const DenseLayer& layer = layers.at[l];
    if (int failed = Fill(d_layers.at[l].kernel, 0, layer.in * layer.out * sizeof(float), stream)) return failed;
    if (int failed = Fill(d_layers.at[l].bias, 0, layer.out * sizeof(float), stream)) return failed;
  }
  const int64_t C = input->width, U = layers.at[0].out, S = layers.at[1].out;
  const size_t shared = (5 * C * U + 2 * U * S + 3 * U + 2 * S + 1 + kEvents * (C + U + S + 1)) * sizeof(float);
  return Launch(Backward, Blocks(*input, 264), kThreads, shared, stream, *input, layers, weights, kept, d_weights, d_attended,
                *gradient, d_layers);
}
