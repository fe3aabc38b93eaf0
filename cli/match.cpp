// smelt match: the looped model that costs what a Baseline costs.
#include "smelt/budget/match.h"

#include <fmt/format.h>

#include <memory>

#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/core/file.h"
#include "smelt/core/table.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string config, out;
  budget::MatchOptions match;
};

std::vector<std::string> row(const std::string& name, const arch::ModelConfig& m,
                             const budget::Mismatch& off) {
  const auto percent = [](double x) { return fmt::format("{:+.3f} %", 100 * x); };
  return {name,
          std::to_string(m.hidden_size),
          fmt::format("{} x {}", m.num_attention_heads, m.head_dim),
          std::to_string(m.num_key_value_heads),
          std::to_string(m.num_experts),
          std::to_string(m.moe_intermediate_size),
          percent(off.flops),
          percent(off.parameters),
          percent(off.kv_cache)};
}

std::string to_text(const budget::MatchResult& result) {
  Table table({"model", "hidden", "heads", "KV heads", "experts", "width", "FLOPs", "parameters",
               "KV cache"});
  table.add_row(row("Baseline", result.baseline, {}));
  table.add_row(row("SMELT", result.best.config, result.best.mismatch));
  for (std::size_t i = 0; i < result.alternatives.size(); ++i) {
    const auto& other = result.alternatives[i];
    table.add_row(row(fmt::format("alternative {}", i + 1), other.config, other.mismatch));
  }
  const auto& loop = *result.best.config.loop;
  std::string text = table.text();
  text += fmt::format("layers {}-{} of {} run {} times: {} executed; {}\n", loop.first, loop.last,
                      result.baseline.num_hidden_layers, loop.visits,
                      result.best.budget.executed_layers,
                      result.within_tolerance ? "within tolerance" : "NOT within tolerance");
  for (const std::string& line : result.words) text += "! " + line + "\n";
  return text;
}

}  // namespace

void add_match(CLI::App& program, Session& session) {
  CLI::App& verb = new_verb(program, session, "match",
                            "The looped model with a Baseline's FLOPs, parameters and KV cache",
                            "smelt match baseline.json --out smelt.json");
  auto options = std::make_shared<Options>();
  verb.add_option("CONFIG", options->config, "config.json of the unlooped Baseline")->required();
  verb.add_option("--out", options->out, "write the matched config.json here");
  add_flags(verb, options->match);
  verb.callback([&session, options] {
    const auto result = budget::match(arch::read_model_config(options->config), options->match);
    if (!options->out.empty()) {
      write_file_atomic(options->out, smelt::to_text(arch::to_json(result.best.config)));
    }
    print_result(session, budget::to_json(result), to_text(result));
  });
}

}  // namespace smelt::cli
