// oneDNN's own GRU or AUGRU ("vanilla": the reset is applied before the product), forward and backward, as a separate program to
// compare times and results with. It never shares a process with TensorFlow, which contains another oneDNN.
//
//   onednn_gru <file>     each line on stdin runs one pass and is answered by a line; at the end of stdin the last pass's
//                         results go to <file>.out
//
// <file>: int64 T, B, C, H, attended; then float32 x [T, B, C], kernel of x [C, 3, H], kernel of the state [H, 3, H],
// bias [3, H], d_outputs [T, B, H] and, where attended, attention [T, B, 1]. Gates in oneDNN's order: update, reset, candidate.
// <file>.out: outputs, then the gradients of x, both kernels, bias and attention.

#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <unordered_map>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"

using namespace dnnl;
using Tag = memory::format_tag;

namespace {

const engine cpu(engine::kind::cpu, 0);

memory::desc Desc(const memory::dims& dims, Tag tag) { return {dims, memory::data_type::f32, tag}; }

// A matrix that is read from or written to a file, in the file's layout.
memory FromFile(std::ifstream& file, const memory::dims& dims, Tag tag) {
  memory made(Desc(dims, tag), cpu);
  file.read(static_cast<char*>(made.get_data_handle()), made.get_desc().get_size());
  return made;
}

memory InLayout(const memory& from, const memory::desc& wanted, stream& on) {
  if (from.get_desc() == wanted) return from;
  memory made(wanted, cpu);
  reorder(from, made).execute(on, const_cast<memory&>(from), made);
  on.wait();
  return made;
}

void Write(std::ofstream& file, const memory& from) {
  file.write(static_cast<const char*>(from.get_data_handle()), from.get_desc().get_size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream file(argv[1], std::ios::binary);
  int64_t T, B, C, H, attended;
  for (int64_t* size : {&T, &B, &C, &H, &attended}) file.read(reinterpret_cast<char*>(size), sizeof *size);
  if (!file) return 2;
  stream on(cpu);
  const memory x = FromFile(file, {T, B, C}, Tag::tnc);
  const memory kernel_x = FromFile(file, {1, 1, C, 3, H}, Tag::ldigo), kernel_h = FromFile(file, {1, 1, H, 3, H}, Tag::ldigo);
  const memory bias = FromFile(file, {1, 1, 3, H}, Tag::ldgo), d_out = FromFile(file, {T, B, H}, Tag::tnc);
  const memory attention = attended ? FromFile(file, {T, B, 1}, Tag::tnc) : memory();
  if (!file) return 2;

  const auto x_d = x.get_desc(), bias_d = bias.get_desc(), out_d = d_out.get_desc(), none = memory::desc();
  const auto any_x = Desc({1, 1, C, 3, H}, Tag::any), any_h = Desc({1, 1, H, 3, H}, Tag::any);
  const auto one_way = rnn_direction::unidirectional_left2right;
  const auto training = prop_kind::forward_training, backward = prop_kind::backward;

  // The two primitives differ only in the attention, and in the types derived from them.
  const auto run = [&](const auto& forward_d, const auto& backward_d, auto forward_kernel, auto backward_kernel) {
    memory out(out_d, cpu), workspace(forward_d.workspace_desc(), cpu), d_x(x_d, cpu), d_bias(bias_d, cpu);
    memory d_kernel_x(kernel_x.get_desc(), cpu), d_kernel_h(kernel_h.get_desc(), cpu);
    memory d_attention = attended ? memory(attention.get_desc(), cpu) : memory();
    std::unordered_map<int, memory> f = {{DNNL_ARG_SRC_LAYER, x},
                                         {DNNL_ARG_WEIGHTS_LAYER, InLayout(kernel_x, forward_d.weights_layer_desc(), on)},
                                         {DNNL_ARG_WEIGHTS_ITER, InLayout(kernel_h, forward_d.weights_iter_desc(), on)},
                                         {DNNL_ARG_BIAS, bias},
                                         {DNNL_ARG_DST_LAYER, out},
                                         {DNNL_ARG_WORKSPACE, workspace}};
    std::unordered_map<int, memory> b = f;
    b[DNNL_ARG_WEIGHTS_LAYER] = InLayout(kernel_x, backward_d.weights_layer_desc(), on);
    b[DNNL_ARG_WEIGHTS_ITER] = InLayout(kernel_h, backward_d.weights_iter_desc(), on);
    b[DNNL_ARG_DIFF_SRC_LAYER] = d_x;
    b[DNNL_ARG_DIFF_WEIGHTS_LAYER] = d_kernel_x;
    b[DNNL_ARG_DIFF_WEIGHTS_ITER] = d_kernel_h;
    b[DNNL_ARG_DIFF_BIAS] = d_bias;
    b[DNNL_ARG_DIFF_DST_LAYER] = d_out;
    if (attended) {
      f[DNNL_ARG_AUGRU_ATTENTION] = b[DNNL_ARG_AUGRU_ATTENTION] = attention;
      b[DNNL_ARG_DIFF_AUGRU_ATTENTION] = d_attention;
    }
    std::puts("ready");
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      // oneDNN adds to the gradients of weights.
      for (memory* sum : {&d_kernel_x, &d_kernel_h, &d_bias}) {
        std::fill_n(static_cast<char*>(sum->get_data_handle()), sum->get_desc().get_size(), 0);
      }
      forward_kernel.execute(on, f);
      backward_kernel.execute(on, b);
      on.wait();
      std::puts("done");
      std::fflush(stdout);
    }
    std::ofstream results(std::string(argv[1]) + ".out", std::ios::binary);
    for (const memory& each : {out, d_x, d_kernel_x, d_kernel_h, d_bias}) Write(results, each);
    if (attended) Write(results, d_attention);
  };
  const auto file_x = kernel_x.get_desc(), file_h = kernel_h.get_desc();
  if (attended) {
    const auto a_d = attention.get_desc();
    const augru_forward::primitive_desc f({training, one_way, x_d, none, a_d, any_x, any_h, bias_d, out_d, none}, cpu);
    const augru_backward::primitive_desc b({backward, one_way, x_d, none, a_d, any_x, any_h, bias_d, out_d, none, x_d, none, a_d,
                                            file_x, file_h, bias_d, out_d, none},
                                           cpu, f);
    run(f, b, augru_forward(f), augru_backward(b));
  } else {
    const gru_forward::primitive_desc f({training, one_way, x_d, none, any_x, any_h, bias_d, out_d, none}, cpu);
    const gru_backward::primitive_desc b(
        {backward, one_way, x_d, none, any_x, any_h, bias_d, out_d, none, x_d, none, file_x, file_h, bias_d, out_d, none}, cpu,
        f);
    run(f, b, gru_forward(f), gru_backward(b));
  }
  return 0;
}
