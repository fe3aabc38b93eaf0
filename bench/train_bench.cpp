// smelt's side of bench/train.py, in a process of its own: steps of a given model on given tokens.
//
//   train_bench step FOLDER THREADS     losses and seconds of every step, peak memory
//   train_bench products FOLDER THREADS the step's matrix products alone, and the machine's peak
//
// FOLDER holds config.json, model.safetensors and tokens.safetensors ("tokens" [steps, rows, length]);
// every row is one document.  Prints one JSON object.
#include <fmt/format.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "smelt/core/error.h"
#include "smelt/core/json.h"
#include "smelt/model/weights.h"
#include "smelt/train/optimizer.h"
#include "smelt/train/process.h"
#include "smelt/train/run.h"
#include "smelt/train/step.h"

namespace smelt::train {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Json steps(const std::filesystem::path& folder, model::Precision precision) {
  model::Decoder decoder = model::load_decoder(folder);
  decoder.precision = precision;
  const at::Tensor tokens = model::read_safetensors(folder / "tokens.safetensors").at(0).second;
  const std::int64_t rows = tokens.size(1), length = tokens.size(2);
  std::vector<std::int64_t> segments;
  for (std::int64_t i = 0; i < rows * length; ++i) segments.push_back(i / length);
  auto parameters = model::named_parameters(decoder);
  for (auto& [name, tensor] : parameters) tensor.set_requires_grad(true);
  TrainOptions options;
  options.lr = 1e-3;
  AdamW optimizer(options, parameters, zero_moments(parameters));
  // The peer has no auxiliary losses.
  const RouterOptions router{.load_balance = 0, .z_loss = 0};
  Json losses = Json::array(), seconds = Json::array(), forward = Json::array(), backward = Json::array();
  for (std::int64_t s = 0; s < tokens.size(0); ++s) {
    const at::Tensor flat = tokens[s].contiguous();
    const auto start = Clock::now();
    const model::Batch batch = model::make_batch(
        {flat.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(flat.numel())}, segments,
        rows, length, decoder.config.vocab_size);
    const auto step = accumulate_gradients(decoder, {batch}, router);
    optimizer.step(options.lr, s + 1);
    optimizer.clear_gradients();
    seconds.push_back(since(start));
    losses.push_back(step->loss);
    forward.push_back(step->forward_seconds);
    backward.push_back(step->backward_seconds);
  }
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return {{"losses", losses},
          {"seconds", seconds}, {"forward", forward}, {"backward", backward},
          {"peak_rss_bytes", 1024.0 * static_cast<double>(usage.ru_maxrss)}};
}

}  // namespace
}  // namespace smelt::train

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: train_bench step|products FOLDER THREADS PRECISION\n");
    return 2;
  }
  try {
    const std::int64_t threads = std::atoi(argv[3]);
    smelt::train::prepare_process(threads);
    const smelt::train::ProcessSettings settings(threads);
    fmt::print("{}\n", smelt::train::steps(argv[2], std::string(argv[4]) == "bf16" ? smelt::model::Precision::kBf16 : smelt::model::Precision::kFp32).dump());
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
