// smelt match: the looped model that costs what a Baseline costs.
#include "smelt/budget/match.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <memory>
#include <optional>

#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/arch/presets.h"
#include "smelt/core/file.h"
#include "smelt/core/table.h"
#include "smelt/data/rows.h"
#include "smelt/data/token_store.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string config, out, store;
  std::int64_t row_length = 512;
  std::int64_t vocab_size = 0;
  bool paper = false;
  std::optional<budget::Ablation> ablation;
  budget::MatchOptions match;
};

std::string percent(double x) {
  return fmt::format("{:+.3f} %", 100 * x);
}

/// hidden, heads, KV heads (or the cached vector), experts, width.
std::vector<std::string> geometry(const arch::ModelConfig& m) {
  return {
      std::to_string(m.hidden_size), fmt::format("{} x {}", m.num_attention_heads, m.head_dim),
      m.latent() ? fmt::format("rank {}", m.kv_lora_rank) : std::to_string(m.num_key_value_heads),
      std::to_string(m.num_experts),
      std::to_string(m.num_experts > 0 ? m.moe_intermediate_size : m.intermediate_size)};
}

std::vector<std::string> row(const std::string& name, const arch::ModelConfig& m,
                             const budget::Mismatch& off) {
  std::vector<std::string> cells = {name};
  for (std::string& cell : geometry(m)) cells.push_back(std::move(cell));
  for (const double x : {off.flops, off.parameters, off.kv_cache}) cells.push_back(percent(x));
  return cells;
}

std::string to_text(const budget::MatchResult& result, const std::string& attended_source) {
  Table table({"model", "hidden", "heads", "KV heads", "experts", "width", "FLOPs", "parameters",
               "KV cache"});
  table.add_row(row("Baseline", result.baseline, {}));
  const auto& best = result.best.config;
  table.add_row(row(best.loop ? "SMELT" : "matched", best, result.best.mismatch));
  for (std::size_t i = 0; i < result.alternatives.size(); ++i) {
    const auto& other = result.alternatives[i];
    table.add_row(row(fmt::format("alternative {}", i + 1), other.config, other.mismatch));
  }
  std::string text = table.text();
  if (best.loop) {
    text += fmt::format("layers {}-{} of {} run {} times: ", best.loop->first, best.loop->last,
                        best.num_hidden_layers, best.loop->visits);
  }
  text += fmt::format("{} layers executed; {}\nattended positions {:.6g} per token ({})\n",
                      result.best.budget.executed_layers,
                      result.within_tolerance ? "within tolerance" : "NOT within tolerance",
                      result.best.budget.attended, attended_source);
  for (const std::string& line : result.words) text += "! " + line + "\n";
  return text;
}

/// The 12 sparse cells of the paper: its own looped model beside ours.
void run_paper(Session& session, const budget::MatchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Json cells = Json::array();
  Table table({"cell", "model", "hidden", "heads", "KV heads", "experts", "width", "FLOPs",
               "parameters", "KV cache"});
  for (const std::string& name : arch::preset_names()) {
    const std::size_t arm = name.find("-smelt");
    if (arm == std::string::npos) continue;
    const arch::ModelConfig published = *arch::preset(name);
    const arch::ModelConfig baseline = *arch::preset(name.substr(0, arm) + "-baseline");
    const budget::MatchResult result = budget::match(baseline, options);
    const budget::Mismatch theirs = budget::mismatch(budget::count(published, options.attended),
                                                     budget::count(baseline, options.attended));
    const std::string cell = name.substr(name.find('/') + 1, arm - name.find('/') - 1);
    const auto add = [&](const char* who, const arch::ModelConfig& m, const budget::Mismatch& off) {
      std::vector<std::string> line = row(who, m, off);
      line.insert(line.begin(), cell);
      table.add_row(line);
    };
    add("published", published, theirs);
    add("matched", result.best.config, result.best.mismatch);
    Json published_json = arch::to_json(published);
    published_json["mismatch"] = budget::to_json(theirs);
    cells.push_back({{"scale", cell.substr(0, cell.find('-'))},
                     {"experts", baseline.num_experts},
                     {"published", published_json},
                     {"matched", arch::to_json(result.best.config)},
                     {"mismatch", budget::to_json(result.best.mismatch)},
                     {"within_tolerance", result.within_tolerance}});
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_result(session, {{"schema", "smelt.match.paper/1"}, {"cells", cells}, {"seconds", seconds}},
               table.text() + fmt::format("{} cells in {:.3f} s\n", cells.size(), seconds));
}

void run_ablation(Session& session, const arch::ModelConfig& baseline, budget::Ablation what,
                  const budget::MatchOptions& options) {
  Json cells = Json::array();
  Table table({"model", "hidden", "heads", "KV heads", "experts", "width", "FLOPs", "parameters",
               "KV cache", "layers", "looped", "visits", "executed", ""});
  for (const budget::AblationRow& entry : budget::ablate(baseline, what, options)) {
    const budget::Match& best = entry.match.best;
    std::vector<std::string> line =
        row(entry.looped ? "looped" : "unlooped", best.config, best.mismatch);
    for (const std::int64_t n :
         {entry.layers, entry.looped_layers, entry.visits, best.budget.executed_layers}) {
      line.push_back(std::to_string(n));
    }
    line.emplace_back(entry.match.within_tolerance ? "" : "not within tolerance");
    table.add_row(line);
    cells.push_back({{"looped", entry.looped},
                     {"layers", entry.layers},
                     {"looped_layers", entry.looped_layers},
                     {"visits", entry.visits},
                     {"executed_layers", best.budget.executed_layers},
                     {"matched", arch::to_json(best.config)},
                     {"mismatch", budget::to_json(best.mismatch)},
                     {"within_tolerance", entry.match.within_tolerance},
                     {"words", entry.match.words}});
  }
  print_result(session,
               {{"schema", "smelt.match.ablation/1"},
                {"ablation", enum_name(what)},
                {"baseline", arch::to_json(baseline)},
                {"cells", cells}},
               table.text());
}

/// What is wrong with flags is a usage error.
void check_flags(const budget::MatchOptions& options) {
  Problems problems("cli");
  budget::validate(options, problems);
  if (problems.empty()) return;
  throw CLI::ValidationError(fmt::format("{}", fmt::join(problems.messages(), "; ")));
}

void run(Session& session, Options options, bool attended_given) {
  check_flags(options.match);
  if (options.paper) return run_paper(session, options.match);
  if (options.config.empty()) throw CLI::RequiredError("CONFIG (or --paper)");
  arch::ModelConfig baseline = arch::find_model_config(options.config);
  if (options.vocab_size > 0) baseline.vocab_size = options.vocab_size;
  if (baseline.vocab_size == 0 && !options.out.empty()) {
    throw Error("cli", "--out needs --vocab-size: the paper's vocabulary is not published");
  }
  std::string source = attended_given ? "as given" : "the paper's";
  if (!options.store.empty()) {
    options.match.attended =
        data::mean_attended(data::TokenStore::open(options.store), options.row_length);
    source = fmt::format("measured in {} in rows of {}", options.store, options.row_length);
  }
  if (options.ablation) return run_ablation(session, baseline, *options.ablation, options.match);
  const budget::MatchResult result = budget::match(baseline, options.match);
  if (!options.out.empty()) {
    write_file_atomic(options.out, smelt::to_text(arch::to_json(result.best.config)));
  }
  Json json = budget::to_json(result);
  json["attended"] = options.match.attended;
  json["attended_source"] = source;
  print_result(session, json, to_text(result, source));
}

/// `--multiple`, `--tolerance`, `--bounds` and `--fix` take these by name.
bool is_keyed(std::string_view field) {
  return field.starts_with("tolerance_") || field.starts_with("bounds_") ||
         field.starts_with("fix_") ||
         (field.ends_with("_multiple") && field != "head_dim_multiple");
}

}  // namespace

void add_match(CLI::App& program, Session& session) {
  CLI::App& verb =
      new_verb(program, session, "match",
               "The looped model with a Baseline's FLOPs, parameters and KV cache",
               "smelt match baseline.json --out smelt.json\n"
               "  smelt match baseline.json --head-dim-multiple 8 --tolerance kv_cache=0.036\n"
               "  smelt match baseline.json --multiple experts=8 --fix num_key_value_heads=4\n"
               "  smelt match paper/200M-S85-baseline --ablate span");
  auto options = std::make_shared<Options>();
  verb.add_option("CONFIG", options->config, "config.json of the unlooped Baseline, or a preset");
  CLI::Option* out = verb.add_option("--out", options->out, "write the matched config.json here");
  verb.add_option("--vocab-size", options->vocab_size,
                  "tokens in the vocabulary, over the config's (no budget depends on it)")
      ->check(within(1, 1e9));
  CLI::Option* ablate = verb.add_option_function<std::string>(
      "--ablate",
      [options](const std::string& name) { options->ablation = enum_from<budget::Ablation>(name); },
      "a grid of matched models around this Baseline (paper section 5)");
  ablate->check(CLI::IsMember(enum_choices<budget::Ablation>()));
  CLI::Option* store = verb.add_option("--store", options->store,
                                       "measure the attended positions in this token store");
  verb.add_option("--row-length", options->row_length, "row length that the store is cut into")
      ->check(within(2, 1 << 30))
      ->needs(store)
      ->capture_default_str();
  add_flags(verb, options->match, "Options", is_keyed);
  add_keyed_flag(verb, "--multiple", options->match, "_multiple", "a size is a multiple of this");
  add_keyed_flag(verb, "--tolerance", options->match, "tolerance_",
                 "largest relative mismatch of a budget");
  add_keyed_flag(verb, "--bounds", options->match, "bounds_",
                 "LOW:HIGH, ratios to the Baseline's that count as natural");
  add_keyed_flag(verb, "--fix", options->match, "fix_", "a size that is given");
  CLI::Option* attended = verb.get_option("--attended");
  attended->excludes(store);
  // An ablation sets these itself.
  for (const char* name : {"--visits", "--span", "--depth"}) ablate->excludes(name);
  ablate->excludes(out);
  CLI::Option* paper = verb.add_flag("--paper", options->paper,
                                     "the paper's 12 sparse cells, its models beside ours");
  for (CLI::Option* other : {verb.get_option("CONFIG"), out, store, ablate}) {
    paper->excludes(other);
  }
  for (const char* name : {"--row-length", "--vocab-size"}) paper->excludes(name);
  const CLI::Option* multiple = verb.get_option("--multiple");
  const CLI::Option* head_dim = verb.get_option("--head-dim-multiple");
  verb.callback([&session, options, attended, multiple, head_dim] {
    for (const std::string& given : multiple->results()) {
      if (head_dim->count() > 0 && given.starts_with("head_dim=")) {
        throw CLI::ValidationError("--multiple", "head_dim is given by --head-dim-multiple too");
      }
    }
    run(session, *options, attended->count() > 0);
  });
}

}  // namespace smelt::cli
