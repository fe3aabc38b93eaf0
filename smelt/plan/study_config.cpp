#include "smelt/plan/study_config.h"

#include <algorithm>
#include <set>

#include "smelt/arch/presets.h"
#include "smelt/core/file.h"

namespace smelt::plan {
namespace {

arch::ModelConfig read_baseline(TomlTable table, const std::filesystem::path& file,
                                Problems& problems) {
  arch::ModelConfig model;
  model.vocab_size = 0;  // the token store's, unless the config names its own
  model.norm_topk_prob = true;
  if (const auto config = table.get<std::string>("config", problems)) {
    try {
      model = arch::preset(*config) ? *arch::preset(*config)
                                    : arch::read_model_config(relative_to_file(*config, file));
    } catch (const Error& error) {
      problems.add("[baseline] config: " + std::string(error.what()), table.where("config"));
    }
  }
  read_fields(model, table, problems);
  if (model.visits() > 1) {
    problems.add("config: expected a Baseline without a loop, got visits = " +
                     std::to_string(model.visits()),
                 table.where("config"));
  }
  return model;
}

/// A scale whose geometry is incomplete or does not fit together is a problem at its place in the
/// file.
void check_scale(const Scale& scale, const std::string& where, Problems& problems) {
  for (const std::int64_t experts : scale.experts) {
    arch::ModelConfig model = scale.baseline;
    model.num_experts = experts;
    Problems found("plan", where);
    arch::validate(model, found);
    for (const std::string& message : found.messages()) {
      problems.add("scale \"" + scale.name + "\": " + message, where);
    }
    if (!found.empty()) return;  // the other expert counts would say the same
  }
}

/// What follows from other sizes, unless a table names it: then the model's own check says whether
/// it fits.
void settle(arch::ModelConfig& model, const std::vector<TomlTable>& tables) {
  const auto given = [&tables](const char* key) {
    return std::any_of(tables.begin(), tables.end(),
                       [key](const TomlTable& table) { return table.has(key); });
  };
  if (model.latent()) {
    if (!given("head_dim")) model.head_dim = model.qk_nope_head_dim + model.qk_rope_head_dim;
    if (!given("num_key_value_heads")) model.num_key_value_heads = model.num_attention_heads;
  }
  if (model.num_experts == 0 && !given("experts")) {
    if (!given("num_experts_per_tok")) model.num_experts_per_tok = 0;
    if (!given("moe_intermediate_size")) model.moe_intermediate_size = 0;
  }
}

void read_scales(StudyConfig& study, TomlTable root, const std::filesystem::path& file,
                 Problems& problems) {
  TomlTable baseline_table = root.table("baseline", problems);
  const arch::ModelConfig baseline = read_baseline(baseline_table, file, problems);
  std::set<std::string> names;
  for (TomlTable entry : root.tables("scale", problems)) {
    Scale scale;
    scale.name = entry.get<std::string>("name", problems).value_or("");
    scale.baseline = baseline;
    const std::size_t before = problems.lines().size();
    read_fields(scale.baseline, entry, problems);
    settle(scale.baseline, {baseline_table, entry});
    if (entry.has("experts") && entry.has("num_experts")) {
      problems.add("num_experts: experts lists them; give one of the two",
                   entry.where("num_experts"));
    }
    scale.experts = entry.get<std::vector<std::int64_t>>("experts", problems)
                        .value_or(std::vector<std::int64_t>{scale.baseline.num_experts});
    const bool plain =
        !scale.name.empty() && scale.name.find_first_not_of(
                                   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "0123456789._") == std::string::npos;
    if (!plain) {
      problems.add(
          "scale name: expected letters, digits, \".\" or \"_\", got \"" + scale.name + "\"",
          entry.where("name"));
    }
    if (!names.insert(scale.name).second) {
      problems.add("two scales are named \"" + scale.name + "\"", entry.where("name"));
    }
    std::set<std::int64_t> seen(scale.experts.begin(), scale.experts.end());
    if (scale.experts.empty() || seen.size() != scale.experts.size()) {
      problems.add("experts: expected at least one number, each once", entry.where("experts"));
    }
    if (problems.lines().size() == before) check_scale(scale, entry.where(), problems);
    study.scales.push_back(std::move(scale));
  }
  if (study.scales.empty() && baseline_table.has("config")) {
    study.scales.push_back({"model", baseline, {baseline.num_experts}});
  } else if (study.scales.empty()) {
    problems.add("no scale: expected [[scale]] tables or [baseline] config = \"config.json\"");
  }
}

/// The matcher's options; the span must fit into every scale.
void read_loop(StudyConfig& study, TomlTable table, Problems& problems) {
  const std::size_t before = problems.lines().size();
  if (table.has("attended")) {
    problems.add("attended: measured in the token store; smelt plan takes --attended",
                 table.where("attended"));
  }
  read_fields(study.match, table, problems);
  if (problems.lines().size() > before) return;
  Problems found("plan");
  budget::validate(study.match, found);
  for (const std::string& message : found.messages()) problems.add(message, table.where());
  if (study.match.depth) return;  // the matcher checks the span against it
  for (const Scale& scale : study.scales) {
    if (study.match.span <=
        static_cast<double>(std::max<std::int64_t>(1, scale.baseline.num_hidden_layers)))
      continue;
    problems.add("span: " + number_text(study.match.span) + " layers do not fit into the " +
                     std::to_string(scale.baseline.num_hidden_layers) + " of scale \"" +
                     scale.name + "\"",
                 table.where("span"));
  }
}

void check_horizons(const StudyConfig& study, TomlTable table, Problems& problems) {
  const auto& steps = study.horizons.steps;
  if (steps.empty() || !std::is_sorted(steps.begin(), steps.end(), std::less_equal<>())) {
    problems.add("steps: expected at least one horizon, each longer than the one before",
                 table.where(table.has("steps") ? "steps" : ""));
  }
  if (study.horizons.decay_steps < 1 && !table.has("decay_steps")) {
    problems.add("missing key \"decay_steps\" in [horizons]", table.where());
  }
}

}  // namespace

StudyConfig read_study_config(const std::filesystem::path& file, Problems& problems) {
  StudyConfig study;
  study.text = read_file(file);
  study.file = std::make_shared<TomlFile>(TomlFile::parse(study.text, file.string()));
  TomlTable root = study.file->root();

  study.name = root.get<std::string>("name", problems).value_or(file.stem().string());
  study.seeds = root.get<std::vector<std::int64_t>>("seeds", problems)
                    .value_or(std::vector<std::int64_t>{1, 2, 3});
  if (study.seeds.empty() ||
      std::set<std::int64_t>(study.seeds.begin(), study.seeds.end()).size() != study.seeds.size() ||
      *std::min_element(study.seeds.begin(), study.seeds.end()) < 0) {
    problems.add("seeds: expected at least one number of at least 0, each once",
                 root.where("seeds"));
  }

  TomlTable data = root.table("data", problems);
  const auto store = data.get<std::string>("store", problems);
  if (!store)
    problems.add("missing key \"store\" in [data]: the folder of a token store", data.where());
  study.store = relative_to_file(store.value_or(""), file);
  study.row_length = data.get<std::int64_t>("row_length", problems).value_or(study.row_length);
  check_field(Field{"row_length", "", "tokens", 2, 1e6}, study.row_length, problems,
              data.where("row_length"));

  read_scales(study, root, file, problems);
  TomlTable loop = root.table("loop", problems);
  read_loop(study, loop, problems);
  TomlTable horizons = root.table("horizons", problems);
  read_fields(study.horizons, horizons, problems);
  check_horizons(study, horizons, problems);
  TomlTable rates = root.table("rates", problems);
  read_fields(study.rates, rates, problems);
  if (!study.rates.rates.empty() && study.rates.rates.size() < 3) {
    problems.add("try: expected at least three rates (or none: then [train] lr is fixed by you)",
                 rates.where("try"));
  }
  std::sort(study.rates.rates.begin(), study.rates.rates.end());
  for (const std::int64_t seed : study.seeds) {
    if (seed < study.rates.seed || seed >= study.rates.seed + study.rates.seeds) continue;
    problems.add("seed of [rates]: expected trials with none of the study's seeds, got " +
                     std::to_string(seed),
                 rates.where("seed"));
  }
  read_fields(study.law, root.table("law", problems), problems);
  read_fields(study.probe, root.table("probe", problems), problems);
  read_fields(study.execution, root.table("run", problems), problems);

  study.train = root.table("train", problems);
  study.rows = study.train.get<std::int64_t>("rows", problems).value_or(study.rows);
  check_field(Field{"rows", "", "", 1, 1e6}, study.rows, problems, study.train.where("rows"));
  study.train_baseline = study.train.table("baseline", problems);
  study.train_smelt = study.train.table("smelt", problems);
  study.router = root.table("router", problems);
  return study;
}

}  // namespace smelt::plan
