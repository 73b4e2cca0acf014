// The pointwise kernels of every kind on random and adversarial batches, against their scalar twins.

#pragma once

#include "check/harness.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/pointwise/pointwise_scalar.h"

#pragma weak ctrlab_pointwise
#pragma weak ctrlab_pointwise_gradient

namespace ctrlab::check::pointwise {

struct Case {
  std::string name;
  int64_t rows, columns;
  float factor = 1;  // x is multiplied by it
};

inline std::vector<Case> Cases() {
  return {
      {"a whole tile of columns", 33, 64},
      {"one column", 9, 1},
      {"columns that no vector divides", 40, 67},
      {"several tiles", 70, 150},
      {"many rows", 300, 20},
      {"a batch of one row", 1, 18},
      {"a batch of no rows", 0, 18},
      {"numbers far out", 9, 18, 1e6},
  };
}

inline const char* const kinds[] = {"relu", "prelu", "affine"};

inline void One(const std::string& kernel, const Case& test, int32_t kind, const Pool& pool) {
  const std::string name = Trying(std::string(kinds[kind]) + ", " + test.name, pool);
  const int64_t n = test.columns, count = test.rows * n;
  const bool sloped = kind == kPrelu || kind == kAffine;
  Floats x = RandomFloats(count), shift = RandomFloats(n), slope = RandomFloats(n), d_out = RandomFloats(count);
  for (float& value : x) value *= test.factor;
  PointwiseInput input{x.data(), shift.data(), sloped ? slope.data() : nullptr, test.rows, n, kind};
  Floats out(count);
  scalar::Pointwise(input, out.data());
  if (kernel == "pointwise") {
    Floats size(count);
    for (int64_t k = 0; k < count; ++k) {
      const float p = std::abs(x[k]) + std::abs(shift[k % n]);
      size[k] = (sloped ? 1 + std::abs(slope[k % n]) : 1) * p;
    }
    const auto in_place = Exactly(x);  // `out` may be x's own buffer
    input.x = in_place.get();
    ctrlab_pointwise(&input, in_place.get(), &pool.parallel_for);
    Compare("out[b, c] must be the function of x[b, c], shift[c] and slope[c].", name, out, size, in_place.get(), n);
    return;
  }
  Floats d_x(count), d_shift(n), d_slope(n), size(count), shift_size(n), slope_size(n);
  scalar::PointwiseGradients(input, d_out.data(), {d_x.data(), d_shift.data(), sloped ? d_slope.data() : nullptr});
  for (int64_t k = 0; k < count; ++k) {
    size[k] = std::abs(d_x[k]);
    shift_size[k % n] += std::abs(d_out[k]) * (1 + (sloped ? std::abs(slope[k % n]) : 0));
    slope_size[k % n] += std::abs(d_out[k]) * (std::abs(x[k]) + std::abs(shift[k % n]));
  }
  const auto exact_x = Exactly(x), exact_out = Exactly(out), got = Exactly(d_out), got_shift = Exactly(Nans(n)),
             got_slope = Exactly(Nans(n));
  input.x = sloped ? exact_x.get() : nullptr;
  const PointwiseGradient gradient{got.get(), got_shift.get(), sloped ? got_slope.get() : nullptr};
  ctrlab_pointwise_gradient(&input, sloped ? nullptr : exact_out.get(), got.get(), &gradient, &pool.parallel_for);
  Compare("d_x[b, c] must be d_out[b, c] times the function's derivative.", name, d_x, size, got.get(), n);
  Compare("d_shift[c] must be the sum over b of d_out times the derivative by shift.", name, d_shift, shift_size, got_shift.get(),
          0);
  if (sloped)
    Compare("d_slope[c] must be the sum over b of d_out times the derivative by slope.", name, d_slope, slope_size,
            got_slope.get(), 0);
  Untouched(name, x, exact_x.get());
  Untouched(name, out, exact_out.get());
}

inline void Check(const std::string& kernel) {
  for (const Case& test : Cases()) {
    for (int32_t kind = kRelu; kind <= kAffine; ++kind) {
      for (const Pool& pool : pools) One(kernel, test, kind, pool);
    }
  }
}

inline const Entry entries[] = {
    {"pointwise", &ctrlab_pointwise != nullptr, "kernels/pointwise/pointwise.h", Check},
    {"pointwise_gradient", &ctrlab_pointwise_gradient != nullptr, "kernels/pointwise/pointwise.h", Check},
};

}  // namespace ctrlab::check::pointwise
