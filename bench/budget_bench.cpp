// How long one match takes, and how long one count.
//
//   build/release/bin/budget_bench
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "smelt/arch/presets.h"
#include "smelt/budget/match.h"

namespace {

/// A sparse Baseline of 16 layers and 64 experts, of the size of the paper's smaller cells.
smelt::arch::ModelConfig baseline() {
  smelt::arch::ModelConfig model;
  model.vocab_size = 32000;
  model.hidden_size = 768;
  model.num_hidden_layers = 16;
  model.num_attention_heads = 12;
  model.num_key_value_heads = 4;
  model.head_dim = 96;
  model.moe_intermediate_size = 384;
  model.num_experts = 64;
  model.num_experts_per_tok = 8;
  return model;
}

void count(benchmark::State& state) {
  const auto model = baseline();
  for (auto _ : state) benchmark::DoNotOptimize(smelt::budget::count(model, 392));
}
BENCHMARK(count);

void match(benchmark::State& state) {
  const auto model = baseline();
  for (auto _ : state) benchmark::DoNotOptimize(smelt::budget::match(model, {}));
}
BENCHMARK(match)->Unit(benchmark::kMillisecond);

/// The 12 sparse cells of the paper, one after the other; the target is a second.
void match_paper(benchmark::State& state) {
  std::vector<smelt::arch::ModelConfig> cells;
  for (const std::string& name : smelt::arch::preset_names()) {
    if (name.ends_with("-baseline") && name.find("-S0-") == std::string::npos) {
      cells.push_back(*smelt::arch::preset(name));
    }
  }
  for (auto _ : state) {
    for (const auto& cell : cells) benchmark::DoNotOptimize(smelt::budget::match(cell, {}));
  }
  state.counters["cells"] = static_cast<double>(cells.size());
}
BENCHMARK(match_paper)->Unit(benchmark::kMillisecond);

}  // namespace
