// smelt budget: what a model costs, term by term; two models side by side.
#include "smelt/budget/budget.h"

#include <fmt/format.h>

#include <memory>

#include "cli/verb.h"
#include "smelt/core/table.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string config, baseline, control;
  double attended = budget::kPaperAttended;
  double context = 4096;
};

std::string describe(const arch::ModelConfig& model) {
  std::string text = fmt::format(
      "hidden {}, {} layers, {} heads of {}, {} KV heads, {} experts of width {}, top-{}",
      model.hidden_size, model.num_hidden_layers, model.num_attention_heads, model.head_dim,
      model.num_key_value_heads, model.num_experts, model.moe_intermediate_size,
      model.num_experts_per_tok);
  if (model.loop) {
    text += fmt::format(", layers {}-{} run {} times (scale {:.4g})", model.loop->first,
                        model.loop->last, model.loop->visits, model.loop->residual_scale);
  }
  return text;
}

std::string terms_text(const budget::Budget& b) {
  Table table({"per token or in all", "count"});
  for (const auto& term : b.parameter_terms)
    table.add_row({"parameters: " + term.name, with_commas(term.count)});
  table.add_row({"parameters, total", with_commas(b.parameters_total)});
  table.add_row({"parameters, active", with_commas(b.parameters_active)});
  table.add_row({"weights executed (W)", with_commas(b.parameters_executed)});
  table.add_row({"embedding, head, final norm", with_commas(b.parameters_embedding)});
  for (const auto& term : b.flops_terms)
    table.add_row({"training FLOPs: " + term.name, with_commas(term.count)});
  table.add_row({"training FLOPs, F", with_commas(b.flops_per_token)});
  table.add_row({"forward FLOPs", with_commas(b.flops_forward)});
  table.add_row({"LM head FLOPs (outside F)", with_commas(b.flops_head)});
  table.add_row({"6 x active (convention)", with_commas(b.six_n)});
  table.add_row(
      {fmt::format("full context {:.0f} (convention)", b.context), with_commas(b.full_context)});
  table.add_row({"KV cache elements", with_commas(b.kv_elements_per_token)});
  table.add_row(
      {"KV cache bytes (2-byte elements)", with_commas(budget::kv_bytes_per_token(b, 2))});
  table.add_row({"executed layers", std::to_string(b.executed_layers)});
  return table.text();
}

void run(Session& session, const Options& options) {
  const auto model = arch::read_model_config(options.config);
  const auto counted = budget::count(model, options.attended, options.context);
  const auto control_config = options.control.empty() ? budget::fully_active(model)
                                                      : arch::read_model_config(options.control);
  const auto control = budget::count(control_config, options.attended, options.context);
  const double sparsity = budget::sparsity(counted, control);
  const std::string control_name =
      options.control.empty() ? "its own geometry with every expert active" : options.control;

  Json json = budget::to_json(counted);
  json["sparsity"] = sparsity;
  json["control"] = control_name;
  std::string text =
      describe(model) + "\n" + terms_text(counted) +
      fmt::format("compute-equivalent sparsity {:.4f} (control: {})\n", sparsity, control_name) +
      fmt::format("attended positions {:.6g} per token\n", options.attended);
  if (!options.baseline.empty()) {
    const auto base_model = arch::read_model_config(options.baseline);
    const auto base = budget::count(base_model, options.attended, options.context);
    const auto off = budget::mismatch(counted, base);
    json["baseline"] = budget::to_json(base);
    json["mismatch"] = budget::to_json(off);
    Table table({"budget", options.baseline, options.config, "mismatch"});
    const auto row = [&table](const char* name, double a, double b, double difference) {
      table.add_row(
          {name, with_commas(a), with_commas(b), fmt::format("{:+.3f} %", 100 * difference)});
    };
    row("training FLOPs per token", base.flops_per_token, counted.flops_per_token, off.flops);
    row("total parameters", base.parameters_total, counted.parameters_total, off.parameters);
    row("KV elements per token", base.kv_elements_per_token, counted.kv_elements_per_token,
        off.kv_cache);
    text += "\n" + table.text();
  }
  print_result(session, json, text);
}

}  // namespace

void add_budget(CLI::App& program, Session& session) {
  CLI::App& verb = new_verb(program, session, "budget",
                            "Parameters, FLOPs per token and KV cache of a model, term by term",
                            "smelt budget smelt.json --baseline baseline.json");
  auto options = std::make_shared<Options>();
  verb.add_option("CONFIG", options->config, "config.json of the model")->required();
  verb.add_option("--baseline", options->baseline, "config.json to compare with");
  verb.add_option("--control", options->control,
                  "fully active control of the sparsity (default: experts = top_k)");
  verb.add_option("--attended", options->attended, "mean attended positions per token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_option("--context", options->context, "tokens of the full-context convention")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.callback([&session, options] { run(session, *options); });
}

}  // namespace smelt::cli
