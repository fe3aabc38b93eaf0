// smelt budget: what a model costs, term by term; two models side by side.
#include "smelt/budget/budget.h"

#include <fmt/format.h>

#include <memory>

#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/arch/presets.h"
#include "smelt/budget/paper_grid.h"
#include "smelt/core/table.h"
#include "smelt/data/rows.h"
#include "smelt/data/token_store.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string config, baseline, control, store;
  double attended = budget::kPaperAttended, document_tokens = 0;
  std::int64_t row_length = 512;
  double context = 4096;
  std::int64_t vocab_size = 0;
  budget::CacheType cache = budget::CacheType::kBf16;
  bool attended_given = false, paper = false;
};

struct Attended {
  double positions;    // t̄
  std::string source;  // where it comes from
};

Attended attended_of(const Options& options) {
  if (!options.store.empty()) {
    const auto store = data::TokenStore::open(options.store);
    return {data::mean_attended(store, options.row_length),
            fmt::format("measured in {} in rows of {}", options.store, options.row_length)};
  }
  if (options.document_tokens > 0) {
    return {budget::attended_of_documents(options.document_tokens),
            fmt::format("documents of {:.6g} tokens", options.document_tokens)};
  }
  return {options.attended, options.attended_given ? "as given" : "the paper's"};
}

std::string describe(const arch::ModelConfig& model) {
  std::string text =
      fmt::format("hidden {}, {} layers, {} heads of {}, ", model.hidden_size,
                  model.num_hidden_layers, model.num_attention_heads, model.head_dim);
  text += model.latent() ? fmt::format("a cached vector of {} + {}", model.kv_lora_rank,
                                       model.qk_rope_head_dim)
                         : fmt::format("{} KV heads", model.num_key_value_heads);
  if (model.num_experts > 0) {
    text += fmt::format(", {} experts of width {}, top-{}", model.num_experts,
                        model.moe_intermediate_size, model.num_experts_per_tok);
  }
  if (model.shared_expert_intermediate_size > 0) {
    text += fmt::format(", shared experts of width {}", model.shared_expert_intermediate_size);
  }
  if (model.num_experts == 0) {
    text += fmt::format(", dense, width {}", model.intermediate_size);
  } else if (!model.mlp_only_layers.empty()) {
    text += fmt::format(", {} dense layers of width {}", model.mlp_only_layers.size(),
                        model.intermediate_size);
  }
  if (model.loop) {
    text += fmt::format(", layers {}-{} run {} times (scale {:.4g})", model.loop->first,
                        model.loop->last, model.loop->visits, model.loop->residual_scale);
  }
  return text;
}

/// Without a vocabulary nothing is said of embedding and head.
std::string terms_text(const budget::Budget& b, budget::CacheType cache, bool vocabulary) {
  Table table({"per token or in all", "count"});
  const auto row = [&table](const std::string& name, double count) {
    table.add_row({name, with_commas(count)});
  };
  for (const auto& term : b.parameter_terms) row("parameters: " + term.name, term.count);
  row("parameters, total", b.parameters_total);
  row("parameters, active", b.parameters_active);
  row("weights executed (W)", b.parameters_executed);
  if (vocabulary) {
    row("embedding, head, final norm", b.parameters_embedding);
    row("total with embedding", b.parameters_total_all());
    row("active with embedding", b.parameters_active_all());
  }
  for (const auto& term : b.flops_terms) row("training FLOPs: " + term.name, term.count);
  row("training FLOPs, F", b.flops_per_token);
  row("forward FLOPs", b.flops_forward);
  if (vocabulary) row("LM head FLOPs (outside F)", b.flops_head);
  row("6 x active (convention)", b.six_n);
  row(fmt::format("full context {:.0f} (convention)", b.context), b.full_context);
  const double bytes = b.kv_elements_per_token * budget::bytes_of(cache);
  row("KV cache elements per token", b.kv_elements_per_token);
  row(fmt::format("KV cache bytes per token ({})", enum_name(cache)), bytes);
  row(fmt::format("KV cache bytes per sequence of {:.0f}", b.context), bytes * b.context);
  table.add_row({"executed layers", std::to_string(b.executed_layers)});
  table.add_row({"width / depth", fmt::format("{:.4g}", b.width_to_depth)});
  return table.text();
}

/// The paper's grid, published beside counted; exit 1 when a figure that should agree does not.
void run_paper(Session& session) {
  Json json = {{"schema", "smelt.budget.paper/1"}, {"cells", Json::array()}};
  Table table({"cell", "total B", "active B", "S", "F ratio", "KV ratio", "agrees"});
  std::string words;
  for (const budget::PaperRow& row : budget::paper_grid()) {
    Json published = Json::object(), counted = Json::object();
    std::vector<std::string> cells = {row.name};
    for (const budget::PaperFigure& figure : row.figures) {
      published[figure.name] =
          figure.published.empty() ? Json() : Json(std::stod(figure.published));
      counted[figure.name] = figure.counted ? Json(*figure.counted) : Json();
      std::string cell = figure.published;
      if (figure.counted && !cell.empty()) cell += fmt::format(" ({:.4g})", *figure.counted);
      if (!figure.expected_to_agree) cell += " *";
      cells.push_back(cell);
    }
    const bool agrees = row.agrees();
    cells.emplace_back(agrees ? "yes" : row.model ? "NO" : "inconsistent");
    table.add_row(cells);
    if (!row.words.empty()) words += "! " + row.name + ": " + row.words + "\n";
    if (row.model && !agrees) session.exit_code = 1;
    json["cells"].push_back({{"cell", row.name},
                             {"published", published},
                             {"counted", counted},
                             {"agrees", agrees},
                             {"words", row.words}});
  }
  print_result(
      session, json,
      table.text() +
          "published (counted at 392 attended positions)\n"
          "* set against a control that is not published; counted against the Baseline's\n" +
          words);
}

void run(Session& session, const Options& options) {
  if (options.paper) return run_paper(session);
  if (options.config.empty()) throw CLI::RequiredError("CONFIG (or --paper)");
  const auto find = [&options](const std::string& name) {
    arch::ModelConfig found = arch::find_model_config(name);
    if (options.vocab_size > 0) found.vocab_size = options.vocab_size;
    return found;
  };
  const auto model = find(options.config);
  const auto [attended, attended_source] = attended_of(options);
  const auto counted = budget::count(model, attended, options.context);
  const auto control_config =
      options.control.empty() ? budget::fully_active(model) : find(options.control);
  const auto control = budget::count(control_config, attended, options.context);
  const double sparsity = budget::sparsity(counted, control);
  const std::string control_name =
      options.control.empty() ? "its own geometry with every expert active" : options.control;

  Json json = budget::to_json(counted, options.cache);
  json["sparsity"] = sparsity;
  json["control"] = control_name;
  json["attended_source"] = attended_source;
  std::string text =
      describe(model) + "\n" + terms_text(counted, options.cache, model.vocab_size > 0) +
      fmt::format("compute-equivalent sparsity {:.4f} (control: {})\n", sparsity, control_name) +
      fmt::format("attended positions {:.6g} per token ({})\n", attended, attended_source);
  if (model.vocab_size == 0) {
    text += "! the paper's vocabulary is not published: no embedding, no head (--vocab-size)\n";
  }
  for (const std::string& feature : arch::beyond_engine(model)) {
    text += "! counted, not run by this program: " + feature + "\n";
  }
  if (!options.baseline.empty()) {
    const auto base_model = find(options.baseline);
    const auto base = budget::count(base_model, attended, options.context);
    const auto off = budget::mismatch(counted, base);
    json["baseline"] = budget::to_json(base, options.cache);
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
  CLI::App& verb =
      new_verb(program, session, "budget",
               "Parameters, FLOPs per token and KV cache of a model, term by term",
               "smelt budget smelt.json --baseline baseline.json --store corpus/quick/store\n"
               "  smelt budget paper/1.6B-S97-smelt --baseline paper/1.6B-S97-baseline\n"
               "  smelt budget --paper");
  auto options = std::make_shared<Options>();
  verb.add_option("CONFIG", options->config, "config.json of the model, or a preset");
  verb.add_option("--baseline", options->baseline, "model to compare with");
  verb.add_option("--control", options->control,
                  "fully active control of the sparsity (default: experts = top_k)");
  verb.add_option("--vocab-size", options->vocab_size,
                  "tokens in the vocabulary, over the config's")
      ->check(within(1, 1e9));
  CLI::Option* attended =
      verb.add_option("--attended", options->attended, "mean attended positions per token")
          ->check(within(0.0, 1e12))
          ->capture_default_str();
  CLI::Option* documents = verb.add_option("--document-tokens", options->document_tokens,
                                           "the same, by documents of n tokens: (n + 1) / 2");
  documents->check(within(1.0, 1e12));
  CLI::Option* store = verb.add_option("--store", options->store,
                                       "the same, measured in a token store (see --row-length)");
  attended->excludes(documents)->excludes(store);
  documents->excludes(store);
  verb.add_option("--row-length", options->row_length, "row length that the store is cut into")
      ->check(within(2, 1 << 30))
      ->needs(store)
      ->capture_default_str();
  verb.add_option("--context", options->context,
                  "tokens of the full-context convention and of the cache per sequence")
      ->check(within(0.0, 1e12))
      ->capture_default_str();
  verb.add_option_function<std::string>(
          "--cache-type",
          [options](const std::string& name) {
            options->cache = *enum_from<budget::CacheType>(name);
          },
          "type of the KV cache's elements")
      ->check(CLI::IsMember(enum_choices<budget::CacheType>()))
      ->default_str("bf16");
  CLI::Option* paper = verb.add_flag(
      "--paper", options->paper, "the paper's grid: every published figure beside the counted one");
  for (CLI::Option* other : verb.get_options()) {  // it has no say in the paper's grid
    const std::string name = other->get_name();
    if (other != paper && name != "--json" && name != "--help") paper->excludes(other);
  }
  verb.callback([&session, options, attended] {
    options->attended_given = attended->count() > 0;
    run(session, *options);
  });
}

}  // namespace smelt::cli
