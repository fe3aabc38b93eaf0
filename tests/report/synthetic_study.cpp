#include "tests/report/synthetic_study.h"

#include <cmath>
#include <numeric>
#include <random>

#include "smelt/core/file.h"
#include "smelt/core/philox.h"
#include "smelt/law/form.h"
#include "smelt/law/frontier.h"

namespace smelt::report::test {
namespace {

constexpr const char* kArms[] = {"baseline", "smelt"};

class Noise {
 public:
  explicit Noise(std::uint32_t seed) : bits_(seed) {}
  /// Uniform in [-1, 1], the same on every platform.
  double operator()() { return 2.0 * static_cast<double>(bits_()) / 4294967295.0 - 1.0; }

 private:
  std::mt19937 bits_;
};

double flops_of(std::size_t cell) {
  return 2.4e7 * std::pow(1.7, static_cast<double>(cell));
}
double sparsity_of(std::size_t cell) {
  return cell % 2 == 0 ? 0.72 : 0.86;
}

law::Law law_of(const std::string& arm) {
  law::Law law{&law::find_form("smelt"), {}, {}, {}};
  if (arm == "baseline") {
    law.coefficients = {1.55, 30.0, 2000.0, 0.35, 0.19, 0.55};
  } else {
    law.coefficients = {1.54, 31.5, 2000.0, 0.36, 0.195, 0.55};
  }
  return law;
}

double true_loss(const std::string& arm, std::size_t cell, double tokens) {
  return law::evaluate(law_of(arm), {flops_of(cell), sparsity_of(cell), tokens});
}

Json config_of(bool looped) {
  Json json = {{"model_type", looped ? "smelt" : "qwen3_moe"},
               {"hidden_size", looped ? 176 : 192},
               {"num_hidden_layers", 6},
               {"num_attention_heads", 8},
               {"num_key_value_heads", 2},
               {"head_dim", looped ? 16 : 24},
               {"num_experts", looped ? 40 : 32},
               {"num_experts_per_tok", 8},
               {"moe_intermediate_size", looped ? 88 : 96}};
  if (looped) json["loop"] = {{"first", 2}, {"last", 4}, {"visits", 2}, {"residual_scale", 0.5}};
  return json;
}

Json budget_of(std::size_t cell, bool looped) {
  const double off = looped ? 1.0013 : 1.0;
  return {
      {"schema", "smelt.budget/1"},
      {"parameters",
       {{"total", std::round(3.9e6 * (1.0 + static_cast<double>(cell)) * (looped ? 0.998 : 1.0))},
        {"active", 1.4e6},
        {"executed", looped ? 2.0e6 : 1.4e6},
        {"embedding", 1.5e6}}},
      {"flops_per_token", {{"training", std::round(flops_of(cell) * off)}, {"attended", 180.5}}},
      {"kv_cache", {{"elements_per_token", 576}, {"bytes_per_token", 1152}}},
      {"executed_layers", looped ? 9 : 6}};
}

/// Mean, standard error and a 95 % interval over seeds.
void add_statistics(Json& entry, const std::vector<double>& gaps) {
  static constexpr double kStudentT[] = {0, 0, 12.706, 4.303, 3.182, 2.776};
  const double n = static_cast<double>(gaps.size());
  const double mean = std::accumulate(gaps.begin(), gaps.end(), 0.0) / n;
  double squares = 0;
  for (const double gap : gaps) squares += (gap - mean) * (gap - mean);
  entry["gap"] = mean;
  entry["per_seed"] = Json::array();
  for (std::size_t s = 0; s < gaps.size(); ++s)
    entry["per_seed"].push_back({{"seed", s + 1}, {"gap", gaps[s]}});
  entry["standard_error"] = nullptr;
  entry["interval"] = nullptr;
  entry["level"] = 0.95;
  entry["within_noise"] = true;
  if (gaps.size() < 2 || gaps.size() > 5) return;
  const double error = std::sqrt(squares / (n - 1) / n);
  const double reach = kStudentT[gaps.size()] * error;
  entry["standard_error"] = error;
  entry["interval"] = {mean - reach, mean + reach};
  entry["within_noise"] = mean - reach <= 0 && mean + reach >= 0;
}

Json probe_of(bool looped, Noise& noise) {
  Json probe = {{"schema", "smelt.probe/1"},
                {"tokens", 20000},
                {"executed", Json::array()},
                {"sink", Json::array()}};
  const std::vector<std::pair<int, int>> order =
      looped ? std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {3, 1}, {4, 1}, {2, 2},
                                                {3, 2}, {4, 2}, {5, 1}, {6, 1}}
             : std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}};
  for (const auto& [layer, visit] : order) {
    probe["executed"].push_back({{"layer", layer}, {"visit", visit}, {"scale", 1.0}});
    Json heads = Json::array();
    for (int head = 0; head < 8; ++head) {
      heads.push_back(0.06 + 0.05 * layer * (visit == 2 ? 0.45 : 1.0) + 0.04 * noise());
    }
    probe["sink"].push_back(heads);
  }
  probe["expert_chance"] = 1.6;
  if (!looped) return probe;
  Json& layers = probe["pairs"]["1-2"]["layers"] = Json::array();
  Json& errors = probe["standard_errors"]["pairs"]["1-2"]["layers"] = Json::array();
  for (int layer = 2; layer <= 4; ++layer) {
    layers.push_back({{"layer", layer}, {"expert_overlap", 2.6 + 0.4 * layer + 0.1 * noise()}});
    errors.push_back({{"layer", layer}, {"expert_overlap", 0.07}});
  }
  return probe;
}

void add_router(Json& router, const std::string& cell, int seed, Noise& noise) {
  for (const char* arm : kArms) {
    int executed = 0;
    const auto add = [&](int layer, int visit) {
      router.push_back({{"cell", cell},
                        {"seed", seed},
                        {"arch", arm},
                        {"executed", executed++},
                        {"layer", layer},
                        {"visit", visit},
                        {"max_load", 1.4 + 0.15 * visit + 0.08 * noise()},
                        {"entropy", 0.985 + 0.005 * noise()},
                        {"unused", 0}});
    };
    for (int layer = 1; layer <= 6; ++layer) add(layer, 1);
    if (std::string(arm) == "smelt") {
      for (int layer = 2; layer <= 4; ++layer) add(layer, 2);
    }
  }
}

void add_rates(Json& json, const std::string& cell, Noise& noise) {
  for (const char* arm : kArms) {
    const bool looped = std::string(arm) == "smelt";
    for (const double rate : {0.0015, 0.003, 0.006}) {
      const double off = std::log2(rate / (looped ? 0.0046 : 0.0026));
      json["trials"].push_back({{"cell", cell},
                                {"arch", arm},
                                {"lr", rate},
                                {"seed", 11},
                                {"tokens", 400000},
                                {"loss", 3.61 + 0.035 * off * off + 0.006 * noise()},
                                {"run", "trial"}});
    }
    json["chosen"].push_back({{"cell", cell},
                              {"arch", arm},
                              {"lr", looped ? 0.006 : 0.003},
                              {"how", "tuned"},
                              {"at_edge", looped}});
  }
}

void add_laws(Json& json, bool identifiable) {
  json["law"] = {{"form", "smelt"}, {"identifiable", identifiable}, {"words", Json::array()}};
  for (const char* arm : kArms) {
    const law::Law law = law_of(arm);
    Json fit = law::to_json(law);
    fit["schema"] = "smelt.fit/1";
    fit["equation"] = law.form->equation;
    fit["identifiable"] = identifiable;
    for (std::size_t i = 0; i < law.coefficients.size(); ++i) {
      const double value = law.coefficients[i];
      fit["intervals"][law.form->coefficients[i]] = {0.9 * value, 1.12 * value};
      fit["standard_errors"][law.form->coefficients[i]] = 0.05 * value;
    }
    // Draws in which the exponents of size and tokens lean against each other.
    const Philox random(3, std::string("draws/") + arm);
    for (std::uint64_t draw = 0; identifiable && draw < 120; ++draw) {
      std::vector<double> one = law.coefficients;
      const double lean = random.normal(2 * draw), off = random.normal(2 * draw + 1);
      one[3] += 0.02 * lean;
      one[5] += -0.03 * lean + 0.01 * off;
      fit["draws_kept"]["coefficients"].push_back(draw % 40 == 7 ? Json() : Json(one));
    }
    json["law"][arm] = fit;
  }
  if (!identifiable) {
    json["law"]["words"] = {
        "Two horizons of one cell cannot tell the six coefficients of the law apart."};
    json["gain"] = {{"words", {"A CE Gain needs a law of both arms; this grid identifies none."}}};
    return;
  }
  Json& points = json["gain"]["points"] = Json::array();
  for (const double sparsity : {0.72, 0.86}) {
    for (int i = 0; i < 7; ++i) {
      const double compute = 3e13 * std::pow(10.0, 0.25 * i);
      const auto exact = law::ce_gain(law_of("baseline"), law_of("smelt"), compute, sparsity);
      const Json interval =
          exact.gain ? Json::array({*exact.gain - 0.06 - 0.01 * i, *exact.gain + 0.05}) : Json();
      points.push_back({{"compute", compute},
                        {"sparsity", sparsity},
                        {"gain", exact.gain ? Json(*exact.gain) : Json()},
                        {"interval", interval},
                        {"loss_gap", exact.loss_gap},
                        {"tpp_reference", exact.reference.tokens_per_parameter},
                        {"tpp_target", exact.target.tokens_per_parameter},
                        {"extrapolated", i == 6},
                        {"words", ""}});
    }
  }
  json["gain"]["schema"] = "smelt.gain/1";
  json["gain"]["draws"] = 2000;
  json["gain"]["draws_used"] = 1983;
  json["gain"]["words"] = Json::array();
}

std::string run_name(const std::string& cell, int seed, const std::string& arm) {
  return cell + "-seed" + std::to_string(seed) + "-" + arm;
}

void add_domains_and_lengths(Json& json, const std::string& cell, double tokens, int seeds,
                             double gap, Noise& noise) {
  for (const char* domain : {"Code", "Math/STEM", "Knowledge", "Finance", "Web"}) {
    const double baseline = 3.2 + 0.4 * noise(), here = gap + 0.02 * noise();
    Json entry = {{"cell", cell},         {"tokens", tokens},         {"domain", domain},
                  {"baseline", baseline}, {"smelt", baseline - here}, {"gap", here}};
    for (int seed = 1; seed <= seeds; ++seed)
      entry["per_seed"].push_back({{"seed", seed}, {"gap", here + 0.015 * noise()}});
    json["domains"].push_back(entry);
  }
  for (const int most : {32, 64, 128, 256, 512, 1024, 2048, 4096}) {
    const double baseline = 3.9 - 0.08 * std::log2(most),
                 here = gap + 0.004 * std::log2(most / 256.0) + 0.006 * noise();
    json["lengths"].push_back({{"cell", cell},
                               {"tokens", tokens},
                               {"bucket", "≤" + std::to_string(most)},
                               {"max_tokens", most},
                               {"cut", most > 512},
                               {"documents", 31},
                               {"scored_tokens", 31 * most},
                               {"baseline", baseline},
                               {"smelt", baseline - here},
                               {"gap", here}});
  }
}

}  // namespace

SyntheticStudy quick_study() {
  return {};
}

SyntheticStudy grid_study() {
  SyntheticStudy study;
  study.name = "overnight";
  study.cells = {"tiny-e32", "tiny-e64", "small-e32", "small-e64", "base-e32", "base-e64"};
  study.horizons = {600000, 1200000, 2400000, 4800000};
  study.identifiable = true;
  return study;
}

Json synthetic_json(const SyntheticStudy& study) {
  Noise noise(7);
  Json json = {{"schema", "smelt.study/1"},
               {"name", study.name},
               {"complete", true},
               {"headline", ""},
               {"words", {"One machine and one corpus: other data may order the arms otherwise."}}};
  for (const char* key :
       {"cells", "pairs", "endpoints", "rates", "gaps", "gap", "domains", "lengths"})
    json[key] = Json::array();
  json["rates"] = {{"how", "tuned"},
                   {"words", {"smelt: the best rate, 0.006, is at the edge of what was tried"}},
                   {"trials", Json::array()},
                   {"chosen", Json::array()}};
  json["gap"] = {{"words", "Pooled over all cells at the longest horizon."}};
  json["router"] = Json::array();
  std::vector<double> pooled(static_cast<std::size_t>(study.seeds), 0);
  for (std::size_t c = 0; c < study.cells.size(); ++c) {
    const std::string& cell = study.cells[c];
    const Json mismatch = {
        {"flops", 0.0013 + 0.0005 * noise()}, {"parameters", -0.002}, {"kv_cache", 0.0}};
    json["cells"].push_back(
        {{"cell", cell},
         {"scale", cell.substr(0, cell.find('-'))},
         {"sparsity", sparsity_of(c)},
         {"configs", {{"baseline", config_of(false)}, {"smelt", config_of(true)}}},
         {"budgets", {{"baseline", budget_of(c, false)}, {"smelt", budget_of(c, true)}}},
         {"sparsity_own", {{"baseline", 0.72}, {"smelt", 0.71}}},
         {"mismatch", mismatch},
         {"within_tolerance", true},
         {"step_seconds", {{"baseline", 0.21}, {"smelt", 0.24}}}});
    std::vector<Json> pairs;
    for (int seed = 1; seed <= study.seeds; ++seed) {
      const std::string print = "a3f09c" + std::to_string(seed) + "d71b" + std::to_string(c);
      pairs.push_back({{"cell", cell},
                       {"seed", seed},
                       {"fingerprint", {{"baseline", print}, {"smelt", print}}},
                       {"mismatch", mismatch},
                       {"runs",
                        {{"baseline", run_name(cell, seed, "baseline")},
                         {"smelt", run_name(cell, seed, "smelt")}}},
                       {"branches", Json::array()}});
    }
    for (const double tokens : study.horizons) {
      std::vector<double> gaps;
      for (int seed = 1; seed <= study.seeds; ++seed) {
        const double shared = 0.012 * noise();
        Json loss;
        for (const char* arm : kArms) {
          const double value = true_loss(arm, c, tokens) + shared + 0.009 * noise();
          loss[arm] = value;
          json["endpoints"].push_back({{"arch", arm},
                                       {"scale", "tiny"},
                                       {"sparsity", sparsity_of(c)},
                                       {"sparsity_own", 0.72},
                                       {"cell", cell},
                                       {"seed", seed},
                                       {"flops_per_token", flops_of(c)},
                                       {"tokens", tokens},
                                       {"loss", value},
                                       {"lr", 0.003},
                                       {"step_seconds", 0.21}});
        }
        gaps.push_back(loss["baseline"].get<double>() - loss["smelt"].get<double>());
        pairs[static_cast<std::size_t>(seed - 1)]["loss"] = loss;
      }
      Json entry = {{"cell", cell}, {"tokens", tokens}, {"flops", flops_of(c) * tokens}};
      add_statistics(entry, gaps);
      json["gaps"].push_back(entry);
      if (tokens != study.horizons.back()) continue;
      for (std::size_t s = 0; s < gaps.size(); ++s)
        pooled[s] += gaps[s] / static_cast<double>(study.cells.size());
      add_domains_and_lengths(json, cell, tokens, study.seeds, entry["gap"].get<double>(), noise);
    }
    for (const Json& pair : pairs) json["pairs"].push_back(pair);
    for (int seed = 1; seed <= study.seeds; ++seed) add_router(json["router"], cell, seed, noise);
    if (c == 0 || c + 1 == study.cells.size()) add_rates(json["rates"], cell, noise);
  }
  add_statistics(json["gap"], pooled);
  add_laws(json, study.identifiable);
  json["probe"] = {{"cell", study.cells.front()}, {"seed", 1}, {"tokens", 20000}};
  json["probe"]["baseline"] = probe_of(false, noise);
  json["probe"]["smelt"] = probe_of(true, noise);
  json["provenance"] = {
      {"version", "0.1.0"},
      {"commit", "0123abcd"},
      {"config", "name = \"" + study.name + "\"\nseeds = [1, 2, 3]\n"},
      {"started", "2026-12-01T04:00:00Z"},
      {"finished", "2026-12-01T04:13:32Z"},
      {"seconds", 812},
      {"stage_seconds", {{"rates", 200}, {"runs", 540}, {"probe", 31}}},
      {"machine", {{"cpu", "a processor"}, {"cores", 2}, {"memory_gib", 23.4}}},
      {"torch", "2.13.0"},
      {"parallel_runs", 2},
      {"threads_per_run", 1},
      {"store",
       {{"fingerprint", "9f2c11"},
        {"path", "corpus/quick/store"},
        {"vocab_size", 4096},
        {"documents", 18234},
        {"tokens", 21345678},
        {"pools", {{"stable", 15000000}, {"decay", 4000000}, {"validation", 600000}}},
        {"mean_attended", 180.5}}},
      {"seeds", {1, 2, 3}}};
  return json;
}

void write_synthetic_study(const std::filesystem::path& folder, const SyntheticStudy& study) {
  Noise noise(11);
  make_folder(folder);
  write_file_atomic(folder / "study.json", to_text(synthetic_json(study)));
  for (std::size_t c = 0; c < study.cells.size(); ++c) {
    for (int seed = 1; seed <= study.seeds; ++seed) {
      std::vector<double> shared(static_cast<std::size_t>(study.steps));
      for (double& value : shared) value = 0.12 * noise();  // both arms meet the same batches
      for (const char* arm : kArms) {
        std::string lines;
        for (int step = 1; step <= study.steps; ++step) {
          const double tokens = study.horizons.back() * step / study.steps;
          const double start = 5.0 * std::exp(-12.0 * step / study.steps);
          const double loss = true_loss(arm, c, tokens) + start +
                              shared[static_cast<std::size_t>(step - 1)] + 0.03 * noise();
          lines +=
              Json{{"step", step}, {"tokens", tokens}, {"loss", loss}, {"lr", 0.003}}.dump() + "\n";
        }
        lines += Json{{"step", study.steps}, {"eval", {{"loss", 3.2}}}}.dump() + "\n";
        const auto run = folder / "runs" / run_name(study.cells[c], seed, arm);
        make_folder(run);
        write_file_atomic(run / "metrics.jsonl", lines);
      }
    }
  }
}

}  // namespace smelt::report::test
