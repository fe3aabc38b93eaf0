// smelt's side of bench/train.py, in a process of its own.  Prints one JSON object.
//
//   train_steps step FOLDER --threads 2 --precision fp32    losses and seconds of every step, peak
//   memory train_steps step CONFIG.json --steps 8 --rows 4 --length 512 …      the same of fresh
//   weights train_steps products CONFIG.json --rows 4 --length 512 …
//       the matrix products of such a step alone, each shape at its own speed, and the machine's
//       peak
//
// FOLDER holds config.json, model.safetensors and tokens.safetensors ("tokens" [steps, rows,
// length]); every row is one document.
#include <fmt/format.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "smelt/core/json.h"
#include "smelt/model/products.h"
#include "smelt/model/threads.h"
#include "smelt/model/weights.h"
#include "smelt/train/optimizer.h"
#include "smelt/train/process.h"
#include "smelt/train/run.h"
#include "smelt/train/step.h"

namespace smelt::train {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

struct Options {
  std::string what, path;
  std::int64_t threads = 2, steps = 8, rows = 4, length = 512;
  std::string precision = "fp32";
};

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

at::Tensor drawn_tokens(const Options& options, std::int64_t vocab) {
  torch::manual_seed(1);
  return at::randint(vocab, {options.steps, options.rows, options.length}, at::kLong);
}

Json steps(const Options& options, model::Precision precision) {
  const bool given = fs::is_directory(options.path);
  model::Decoder decoder = given ? model::load_decoder(options.path)
                                 : model::init_decoder(arch::read_model_config(options.path), 1);
  decoder.precision = precision;
  const at::Tensor tokens =
      given ? model::read_safetensors(fs::path(options.path) / "tokens.safetensors").at(0).second
            : drawn_tokens(options, decoder.config.vocab_size);
  const std::int64_t rows = tokens.size(1), length = tokens.size(2);
  std::vector<std::int64_t> segments;
  for (std::int64_t i = 0; i < rows * length; ++i) segments.push_back(i / length);
  auto parameters = model::named_parameters(decoder);
  for (auto& [name, tensor] : parameters) tensor.set_requires_grad(true);
  TrainOptions train;
  train.lr = 1e-3;
  AdamW optimizer(train, parameters, zero_moments(parameters));
  const RouterOptions router{.load_balance = 0, .z_loss = 0};  // the peer has none of them
  Json losses = Json::array(), seconds = Json::array();
  for (std::int64_t s = 0; s < tokens.size(0); ++s) {
    const at::Tensor flat = tokens[s].contiguous();
    const auto start = Clock::now();
    const model::Batch batch = model::make_batch(
        {flat.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(flat.numel())}, segments,
        rows, length, decoder.config.vocab_size);
    const auto step = accumulate_gradients(decoder, {batch}, router);
    optimizer.step(train.lr, s + 1);
    optimizer.clear_gradients();
    seconds.push_back(since(start));
    losses.push_back(step->loss);
  }
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return {{"losses", losses},
          {"seconds", seconds},
          {"peak_rss_bytes", 1024.0 * static_cast<double>(usage.ru_maxrss)}};
}

/// The fastest of some calls, after one that does not count.
double best_seconds(const std::function<void()>& call) {
  call();
  double best = 1e30, spent = 0;
  for (int i = 0; i < 50 && (i < 3 || spent < 0.3); ++i) {
    const auto start = Clock::now();
    call();
    const double seconds = since(start);
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

/// Seconds of `groups` products of each kind (forward, input gradient, weight gradient), each group
/// on a thread of its own where there are several.
double product_seconds(std::int64_t groups, std::int64_t rows, std::int64_t in, std::int64_t out,
                       model::Precision precision) {
  const at::Tensor x = at::randn({groups, rows, in}), w = at::randn({groups, out, in});
  const at::Tensor y = at::randn({groups, rows, out});
  at::Tensor to_x = at::empty_like(x), to_w = at::empty_like(w), to_y = at::empty_like(y);
  const auto part = [](const at::Tensor& t, std::int64_t g) {
    return t.mutable_data_ptr<float>() + g * t.size(1) * t.size(2);
  };
  const auto each = [&](const std::function<void(std::int64_t)>& product) {
    return best_seconds([&] { model::parallel_tasks(groups, product); });
  };
  return each([&](std::int64_t g) {
           model::linear(part(x, g), part(w, g), part(to_y, g), rows, in, out, precision);
         }) +
         each([&](std::int64_t g) {
           model::linear_input_gradient(part(y, g), part(w, g), part(to_x, g), rows, in, out,
                                        precision);
         }) +
         each([&](std::int64_t g) {
           model::linear_weight_gradient(part(y, g), part(x, g), part(to_w, g), rows, in, out,
                                         precision);
         });
}

/// The faster of LibTorch's own product and ours, on large square matrices.
double peak_flops(model::Precision precision) {
  constexpr std::int64_t n = 2048;
  const at::Tensor a = at::randn({n, n}), b = at::randn({n, n});
  at::Tensor c = at::empty({n, n});
  const auto dtype = precision == model::Precision::kBf16 ? at::kBFloat16 : at::kFloat;
  const at::Tensor a_half = a.to(dtype), b_half = b.to(dtype);
  at::Tensor c_half = c.to(dtype);
  const double ours = best_seconds([&] {
    model::linear(a.const_data_ptr<float>(), b.const_data_ptr<float>(), c.mutable_data_ptr<float>(),
                  n, n, n, precision);
  });
  const double theirs = best_seconds([&] { at::mm_out(c_half, a_half, b_half); });
  return 2.0 * n * n * n / std::min(ours, theirs);
}

Json products(const Options& options, model::Precision precision) {
  const arch::ModelConfig c = arch::read_model_config(options.path);
  const std::int64_t tokens = options.rows * options.length;
  const std::int64_t per_expert = tokens * c.num_experts_per_tok / c.num_experts;
  const auto dense = [&](std::int64_t in, std::int64_t out, model::Precision p) {
    return product_seconds(1, tokens, in, out, p);
  };
  const auto experts = [&](std::int64_t in, std::int64_t out) {
    return product_seconds(c.num_experts, per_expert, in, out, precision);
  };
  const double layer = dense(c.hidden_size, c.query_width(), precision) +
                       2 * dense(c.hidden_size, c.key_value_width(), precision) +
                       dense(c.query_width(), c.hidden_size, precision) +
                       dense(c.hidden_size, c.num_experts, model::Precision::kFp32) +
                       experts(c.hidden_size, 2 * c.moe_intermediate_size) +
                       experts(c.moe_intermediate_size, c.hidden_size);
  // Attention's: QKᵀ and PV and their two gradients each, the causal half of them.
  const std::int64_t half = (options.length + 1) / 2;
  const std::int64_t heads = options.rows * c.num_attention_heads;
  const double attention =
      2 * product_seconds(heads, options.length, c.head_dim, half, model::Precision::kFp32);
  const double seconds = static_cast<double>(c.executed_layers()) * (layer + attention) +
                         dense(c.hidden_size, c.vocab_size, precision);
  return {{"tokens_per_second", static_cast<double>(tokens) / seconds},
          {"gemm_peak_flops", peak_flops(precision)}};
}

}  // namespace
}  // namespace smelt::train

int main(int argc, char** argv) {
  smelt::train::Options options;
  CLI::App program{"smelt's side of bench/train.py"};
  program.add_option("what", options.what)->required()->check(CLI::IsMember({"step", "products"}));
  program.add_option("path", options.path)->required()->check(CLI::ExistingPath);
  program.add_option("--threads", options.threads);
  program.add_option("--steps", options.steps);
  program.add_option("--rows", options.rows);
  program.add_option("--length", options.length);
  program.add_option("--precision", options.precision)->check(CLI::IsMember({"fp32", "bf16"}));
  CLI11_PARSE(program, argc, argv);
  try {
    const auto precision = *smelt::enum_from<smelt::model::Precision>(options.precision);
    if (precision == smelt::model::Precision::kBf16 && !smelt::model::has_bf16_products()) {
      fmt::print("null\n");
      return 0;
    }
    smelt::train::prepare_process(options.threads);
    const smelt::train::ProcessSettings settings(options.threads);
    const smelt::Json result = options.what == "step" ? smelt::train::steps(options, precision)
                                                      : smelt::train::products(options, precision);
    fmt::print("{}\n", result.dump());
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_steps: {}\n", error.what());
    return 1;
  }
  return 0;
}
