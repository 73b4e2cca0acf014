// The batch norm kernels on random and adversarial batches, against their scalar twins.

#pragma once

#include "check/harness.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/batch_norm_scalar.h"

#pragma weak ctrlab_batch_norm
#pragma weak ctrlab_batch_norm_gradient

namespace ctrlab::check::batch_norm {

struct Case {
  std::string name;
  int64_t rows, columns;
  float offset = 0;       // added to each product
  bool constant = false;  // each column holds one number
};

inline std::vector<Case> Cases() {
  return {
      {"a whole tile of columns", 33, 64},
      {"one column", 9, 1},
      {"columns that no vector divides", 40, 67},
      {"several tiles", 70, 150},
      {"more rows than a run of sums", 300, 20},
      {"a batch of one row", 1, 18},
      {"a batch of no rows", 0, 18},
      {"columns where the ReLU lets nothing through", 9, 18, -100},
      {"columns far from zero", 40, 18, 100},
      {"columns without any spread", 40, 18, 3, true},
  };
}

// A case as kernels take it.
struct Buffers {
  int64_t rows, columns;
  Floats product, bias, scale, shift, moving_mean, moving_variance, d_out;

  explicit Buffers(const Case& test) : rows(test.rows), columns(test.columns) {
    product = RandomFloats(rows * columns);
    for (int64_t i = 0; i < std::ssize(product); ++i) product[i] = test.offset + (test.constant ? 0.0f : product[i]);
    for (Floats* vector : {&bias, &scale, &shift, &moving_mean, &moving_variance}) *vector = RandomFloats(columns);
    d_out = RandomFloats(rows * columns);
  }

  BatchNormInput Input() const { return {product.data(), bias.data(), scale.data(), shift.data(), rows, columns, 1e-3f}; }
};

constexpr float kMomentum = 0.9f;

inline void Forward(const std::string& name, const Buffers& buffers, const Pool& pool) {
  const int64_t count = buffers.rows * buffers.columns, n = buffers.columns;
  const BatchNormInput input = buffers.Input();
  Floats out(count), mean(n), variance(n), new_mean(n), new_variance(n);
  BatchNormMoving moving{buffers.moving_mean.data(), buffers.moving_variance.data(), new_mean.data(), new_variance.data(),
                         kMomentum};
  scalar::BatchNorm(input, moving, out.data(), mean.data(), variance.data());
  // A sum's rounding grows with its absolute terms: the activations are not negative, so their mean bounds all.
  Floats size(count), mean_size(n), variance_size(n), new_size(n);
  const float of_sum = OfSum(buffers.rows);
  for (int64_t c = 0; c < n; ++c) {
    const float factor = std::abs(input.scale[c]) / std::sqrt(variance[c] + input.epsilon);
    for (int64_t b = 0; b < buffers.rows; ++b) {
      const float a = static_cast<float>(scalar::Activated(input, b, c));
      size[b * n + c] = (a + mean[c]) * factor * of_sum + std::abs(input.shift[c]);
    }
    mean_size[c] = mean[c] * of_sum;
    variance_size[c] = (variance[c] + mean[c] * mean[c] * 1e-5f) * of_sum;
    new_size[c] = mean_size[c] + variance_size[c] + std::abs(moving.mean[c]) + std::abs(moving.variance[c]);
  }
  const auto product = Exactly(buffers.product), got = Exactly(Nans(count)), got_mean = Exactly(Nans(n)),
             got_variance = Exactly(Nans(n)), got_new_mean = Exactly(Nans(n)), got_new_variance = Exactly(Nans(n));
  BatchNormInput exact = input;
  exact.product = product.get();
  moving.new_mean = got_new_mean.get();
  moving.new_variance = got_new_variance.get();
  ctrlab_batch_norm(&exact, &moving, got.get(), got_mean.get(), got_variance.get(), &pool.parallel_for);
  Compare("mean[c] must be the mean over b of a[b, c] = max(product[b, c] + bias[c], 0).", name, mean, mean_size, got_mean.get(),
          0);
  Compare("variance[c] must be the mean over b of (a[b, c] - mean[c])^2.", name, variance, variance_size, got_variance.get(), 0);
  Compare("out[b, c] must be scale[c] * (a[b, c] - mean[c]) / sqrt(variance[c] + epsilon) + shift[c].", name, out, size,
          got.get(), n);
  const std::string rule = " must be momentum * moving + (1 - momentum) * the batch's, or moving where there are no rows.";
  Compare("new_mean[c]" + rule, name, new_mean, new_size, got_new_mean.get(), 0);
  Compare("new_variance[c]" + rule, name, new_variance, new_size, got_new_variance.get(), 0);
  Untouched(name, buffers.product, product.get());
}

inline void Backward(const std::string& name, const Buffers& buffers, const Pool& pool) {
  const int64_t count = buffers.rows * buffers.columns, n = buffers.columns;
  const BatchNormInput input = buffers.Input();
  Floats out(count), mean(n), variance(n), unused(2 * n);
  scalar::BatchNorm(input, {buffers.moving_mean.data(), buffers.moving_variance.data(), unused.data(), &unused[n], kMomentum},
                    out.data(), mean.data(), variance.data());
  Floats d_product(count), d_bias(n), d_scale(n), d_shift(n), size(count), bias_size(n), scale_size(n), shift_size(n);
  const float of_sum = OfSum(buffers.rows);
  scalar::BatchNormGradients(input, mean.data(), variance.data(), buffers.d_out.data(),
                             {d_product.data(), d_bias.data(), d_scale.data(), d_shift.data()});
  for (int64_t c = 0; c < n; ++c) {
    const float inverse = 1 / std::sqrt(variance[c] + input.epsilon);
    for (int64_t b = 0; b < buffers.rows; ++b) {
      const float a = static_cast<float>(scalar::Activated(input, b, c)), d = std::abs(buffers.d_out[b * n + c]);
      shift_size[c] += d * of_sum;
      scale_size[c] += d * (a + mean[c]) * inverse * of_sum;
    }
    for (int64_t b = 0; b < buffers.rows; ++b) {
      const float a = static_cast<float>(scalar::Activated(input, b, c));
      const float along = (a + mean[c]) * inverse * scale_size[c] / buffers.rows;
      size[b * n + c] =
          std::abs(input.scale[c]) * inverse * (std::abs(buffers.d_out[b * n + c]) + shift_size[c] / buffers.rows + along);
      bias_size[c] += size[b * n + c] * of_sum;
    }
  }
  const auto product = Exactly(buffers.product), got = Exactly(buffers.d_out), got_bias = Exactly(Nans(n)),
             got_scale = Exactly(Nans(n)), got_shift = Exactly(Nans(n));
  BatchNormInput exact = input;
  exact.product = product.get();
  exact.shift = nullptr;
  const BatchNormGradient gradient{got.get(), got_bias.get(), got_scale.get(), got_shift.get()};
  ctrlab_batch_norm_gradient(&exact, mean.data(), variance.data(), got.get(), &gradient, &pool.parallel_for);
  Compare("d_shift[c] must be the sum over b of d_out[b, c].", name, d_shift, shift_size, got_shift.get(), 0);
  Compare("d_scale[c] must be the sum over b of d_out[b, c] * (a[b, c] - mean[c]) / sqrt(variance[c] + epsilon).", name, d_scale,
          scale_size, got_scale.get(), 0);
  Compare("d_product must be the gradient through statistics and ReLU, 0 where a[b, c] is 0.", name, d_product, size, got.get(),
          n);
  Compare("d_bias[c] must be the sum over b of d_product[b, c].", name, d_bias, bias_size, got_bias.get(), 0);
  Untouched(name, buffers.product, product.get());
}

inline void Check(const std::string& kernel) {
  for (const Case& test : Cases()) {
    const Buffers buffers(test);
    for (const Pool& pool : pools) {
      (kernel == "batch_norm" ? Forward : Backward)(Trying(test.name, pool), buffers, pool);
    }
  }
}

inline const Entry entries[] = {
    {"batch_norm", &ctrlab_batch_norm != nullptr, "kernels/batch_norm/batch_norm.h", Check},
    {"batch_norm_gradient", &ctrlab_batch_norm_gradient != nullptr, "kernels/batch_norm/batch_norm.h", Check},
};

}  // namespace ctrlab::check::batch_norm
