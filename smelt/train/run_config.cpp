#include "smelt/train/run_config.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <system_error>

#include "smelt/core/file.h"
#include "smelt/core/table.h"
#include "smelt/core/toml.h"
#include "smelt/model/products.h"

namespace smelt::train {
namespace {

constexpr const char* kSchema = "smelt.run/1";

std::filesystem::path absolute_path(const std::string& text, const std::filesystem::path& file) {
  std::error_code ignored;
  const auto path = relative_to_file(text, std::filesystem::absolute(file));
  const auto real = std::filesystem::weakly_canonical(path, ignored);
  return real.empty() ? path : real;
}

std::string relative_text(const std::filesystem::path& path, const std::filesystem::path& file) {
  std::error_code ignored;
  const auto folder =
      std::filesystem::weakly_canonical(std::filesystem::absolute(file).parent_path(), ignored);
  const auto relative = path.lexically_relative(folder);
  return relative.empty() ? path.string() : relative.generic_string();
}

/// The reader of config.json knows keys but no lines; the line of the first key that a message
/// names is added.
void read_model(arch::ModelConfig& model, TomlTable table, Problems& problems) {
  const std::vector<std::string> keys = table.keys();
  try {
    model = arch::model_config_from_json(table.to_json(), problems.where());
  } catch (const Error& error) {
    std::string text = error.what();
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      std::string line = text.substr(begin, end - begin);
      begin = end + 1;
      if (line.starts_with("[arch] ")) line.erase(0, 7);
      const std::string tail = " (" + problems.where() + ")";
      if (line.ends_with(tail)) line.resize(line.size() - tail.size());
      std::string where = table.where();
      std::size_t first = std::string::npos, longest = 0;
      for (const std::string& key : keys) {
        const std::size_t at = line.find(key);
        if (at == std::string::npos || at > first || (at == first && key.size() < longest))
          continue;
        first = at;
        longest = key.size();
        where = table.where(key);
      }
      problems.add("model: " + line, where);
    }
  }
}

template <class T>
void require(TomlTable& table, const char* key, T& value, Problems& problems,
             const std::string& name) {
  if (!table.has(key)) {
    const std::string where = table.where();
    problems.add("missing key \"" + name + key + "\"", where.empty() ? problems.where() : where);
  }
  if (auto got = table.get<T>(key, problems)) value = std::move(*got);
}

void read_data(DataSource& data, TomlTable table, const std::filesystem::path& file,
               Problems& problems) {
  std::string store;
  require(table, "store", store, problems, "data.");
  data.store = absolute_path(store, file);
  require(table, "row_length", data.row_length, problems, "data.");
  if (const auto text = table.get<std::string>("pool", problems)) {
    if (const auto pool = enum_from<data::Pool>(*text)) {
      data.pool = *pool;
    } else {
      problems.add(
          "pool: expected " + join_choices(enum_choices<data::Pool>()) + ", got \"" + *text + "\"",
          table.where("pool"));
    }
  }
  if (const auto row = table.get<std::uint64_t>("first_row", problems)) data.first_row = *row;
}

void validate_branches(const RunConfig& config, Problems& problems) {
  const BranchPlan& branches = config.branches;
  if (branches == BranchPlan{}) return;
  if (branches.at.empty()) problems.add("branches.at: expected at least one step to fork at");
  const std::int64_t stable = config.train.steps - config.train.decay_steps;
  for (const std::int64_t step : branches.at) {
    if (step > stable) {
      problems.add("branches.at: expected at most " + std::to_string(stable) +
                   ", the last step at the stable rate, got " + std::to_string(step));
    }
  }
  if (config.train.schedule == Schedule::kCosine) {
    problems.add("branches: they fork from a stable rate, and schedule = \"cosine\" has none");
  }
  branch_steps(branches.decay_steps, branches.tokens, config.tokens_per_step(), problems);
}

}  // namespace

std::vector<std::int64_t> RunConfig::kept_steps() const {
  std::vector<std::int64_t> steps = train.keep_steps;
  steps.insert(steps.end(), branches.at.begin(), branches.at.end());
  return steps;
}

std::int64_t branch_steps(std::int64_t decay_steps, const std::string& tokens,
                          std::int64_t tokens_per_step, Problems& problems) {
  if ((decay_steps > 0) == !tokens.empty()) {
    problems.add("a branch's length: expected either decay_steps or tokens, got " +
                 std::string(tokens.empty() ? "neither" : "both"));
    return 2;
  }
  std::int64_t steps = decay_steps;
  if (!tokens.empty()) {
    const auto count = parse_count(tokens);
    if (!count) {
      problems.add("tokens: expected a number such as 500000, 10M or 1.5B, got \"" +
                   clipped(tokens) + "\"");
      return 2;
    }
    steps = std::llround(*count / static_cast<double>(tokens_per_step));
  }
  if (steps < 2) {
    problems.add("a branch's length: expected at least 2 steps of " +
                 std::to_string(tokens_per_step) + " tokens, got " + std::to_string(steps));
    return 2;
  }
  return steps;
}

void validate(const RunConfig& config, Problems& problems) {
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const TrainOptions& train = config.train;
  for (const std::string& feature : arch::beyond_engine(config.model)) {
    problems.add("model: it can be counted and matched, but not run: it has " + feature);
  }
  if (config.threads < 1 || config.threads > 1024) {
    problems.add("threads: expected at least 1 and at most 1024, got " + number(config.threads));
  }
  if (config.data.row_length < 2) {
    problems.add("data.row_length: expected at least 2, got " + number(config.data.row_length));
  } else if (config.data.row_length > config.model.max_position_embeddings) {
    problems.add("data.row_length: expected at most max_position_embeddings = " +
                 number(config.model.max_position_embeddings) + ", got " +
                 number(config.data.row_length));
  }
  if (train.micro_rows > 0 && train.rows % train.micro_rows != 0) {
    problems.add("train.micro_rows: expected a divisor of rows = " + number(train.rows) + ", got " +
                 number(train.micro_rows));
  }
  for (const std::string& group : train.no_decay) {
    const std::vector<std::string> known(std::begin(plan::kParameterGroups),
                                         std::end(plan::kParameterGroups));
    if (std::find(known.begin(), known.end(), group) == known.end()) {
      problems.add("train.no_decay: expected " + join_choices(known) + ", got \"" + clipped(group) +
                   "\"");
    }
  }
  if (train.precision == arch::Precision::kBf16 && !model::has_bf16_products()) {
    problems.add(
        "train.precision: this machine has no bf16 products (AVX512-BF16 or AMX); expected fp32");
  }
  if (train.schedule != Schedule::kWsd && train.decay_steps > 0 && !config.branch) {
    problems.add("train.decay_steps: a decay tail belongs to schedule = \"wsd\", got \"" +
                 std::string(enum_name(train.schedule)) + "\"");
  }
  if (train.decay_steps == 1) {
    problems.add(
        "train.decay_steps: expected 0 or at least 2 (its first step has the stable rate, its last "
        "the floor)");
  }
  if (config.branch) {
    const std::int64_t steps = config.branch->step + train.decay_steps;
    if (config.branch->step < 1) {
      problems.add("branch.step: expected at least 1, got " + number(config.branch->step));
    }
    if (train.steps != steps) {
      problems.add("train.steps: a branch at step " + number(config.branch->step) +
                   " with decay_steps = " + number(train.decay_steps) + " ends at " +
                   number(steps) + ", got " + number(train.steps));
    }
    if (!config.branches.at.empty()) {
      problems.add("branches: a branch has none of its own; they belong to a stable run");
    }
  } else if (train.schedule == Schedule::kCosine && train.warmup_steps >= train.steps) {
    problems.add("train.steps: expected more than warmup_steps = " + number(train.warmup_steps) +
                 " under schedule = \"cosine\", got " + number(train.steps));
  } else if (train.warmup_steps + train.decay_steps > train.steps) {
    problems.add("train.steps: expected at least warmup_steps + decay_steps = " +
                 number(train.warmup_steps + train.decay_steps) + ", got " + number(train.steps));
  }
  validate_branches(config, problems);
}

RunConfig read_run_config(const std::filesystem::path& file) {
  TomlFile toml = TomlFile::read(file);
  TomlTable root = toml.root();
  Problems problems("train", file.string());
  RunConfig config;
  std::string schema;
  require(root, "schema", schema, problems, "");
  if (!schema.empty() && schema != kSchema) {
    problems.add("schema: expected \"" + std::string(kSchema) + "\", got \"" + schema + "\"",
                 root.where("schema"));
  }
  config.name = root.get<std::string>("name", problems)
                    .value_or(std::filesystem::absolute(file).parent_path().filename().string());
  config.seed = root.get<std::uint64_t>("seed", problems).value_or(config.seed);
  config.threads = root.get<std::int64_t>("threads", problems).value_or(config.threads);
  if (root.has("model")) {
    read_model(config.model, root.table("model", problems), problems);
  } else {
    problems.add("missing table [model]: the keys of the model's config.json");
  }
  read_data(config.data, root.table("data", problems), file, problems);
  read_fields(config.train, root.table("train", problems), problems);
  read_fields(config.router, root.table("router", problems), problems);
  if (root.has("branches")) {
    read_fields(config.branches, root.table("branches", problems), problems);
  }
  if (root.has("branch")) {
    TomlTable table = root.table("branch", problems);
    BranchPoint branch;
    std::string parent;
    require(table, "parent", parent, problems, "branch.");
    require(table, "step", branch.step, problems, "branch.");
    branch.parent = absolute_path(parent, file);
    config.branch = branch;
  }
  toml.report_unread(problems);
  problems.throw_if_any();
  validate(config, problems);
  problems.throw_if_any();
  return config;
}

std::string to_toml(const RunConfig& config, const std::filesystem::path& file) {
  const auto line = [](const std::string& key, const Json& value) {
    return key + " = " + toml_value(value) + "\n";
  };
  std::string text =
      "# Complete: `smelt train` on this file makes the same run again, to the bit.\n";
  text += line("schema", kSchema) + line("name", config.name) + line("seed", config.seed) +
          line("threads", config.threads);
  text += "\n[model]\n";
  const Json model = arch::to_json(config.model);
  for (const auto& [key, value] : model.items()) {
    // TOML has no null; such keys and nested ones say nothing about the arithmetic.
    if (!value.is_null() && !value.is_structured()) text += line(key, value);
  }
  if (model.contains("loop")) {
    text += "\n[model.loop]\n";
    for (const auto& [key, value] : model.at("loop").items()) text += line(key, value);
  }
  text += "\n[data]\n" + line("store", relative_text(config.data.store, file)) +
          line("row_length", config.data.row_length) + line("pool", enum_name(config.data.pool)) +
          line("first_row", config.data.first_row);
  text +=
      "\n[train]\n" + fields_to_toml(config.train) + "\n[router]\n" + fields_to_toml(config.router);
  if (config.branch) {
    text += "\n[branch]\n" + line("parent", relative_text(config.branch->parent, file)) +
            line("step", config.branch->step);
  }
  if (config.branches != BranchPlan{}) {
    text += "\n[branches]\n" + fields_to_toml(config.branches);
  }
  return text;
}

void write_run_config(const RunConfig& config, const std::filesystem::path& file) {
  write_file_atomic(file, to_toml(config, file));
}

Json identity(const RunConfig& config) {
  static const std::set<std::string> kFree = {
      "checkpoint_every", "keep_last",  "keep_steps",     "eval_every", "eval_tokens", "log_every",
      "router_every",     "keep_every", "on_write_error", "peak_flops", "tensorboard"};
  Json flat = Json::object();
  flat["seed"] = config.seed;
  flat["threads"] = config.threads;
  arch::ModelConfig model = config.model;
  model.kept = Json::object();
  const Json model_json = arch::to_json(model);
  for (const auto& [key, value] : model_json.items()) {
    if (key != "model_type") flat["model." + key] = value;
  }
  flat["data.row_length"] = config.data.row_length;
  flat["data.pool"] = enum_name(config.data.pool);
  flat["data.first_row"] = config.data.first_row;
  const Json train = fields_to_json(config.train);
  for (const auto& [key, value] : train.items()) {
    if (!kFree.contains(key)) flat["train." + key] = value;
  }
  flat["train.micro_rows"] = config.micro_rows();
  const bool tail = config.train.decay_steps > 0 || config.train.schedule == Schedule::kCosine;
  if (!tail) {  // a run without a tail may be made longer
    for (const char* key : {"train.steps", "train.decay", "train.min_lr_ratio"}) flat.erase(key);
  }
  const Json router = fields_to_json(config.router);
  for (const auto& [key, value] : router.items()) flat["router." + key] = value;
  if (config.branch) flat["branch.step"] = config.branch->step;
  return flat;
}

std::vector<std::string> differences(const Json& a, const std::string& name_a, const Json& b,
                                     const std::string& name_b) {
  std::vector<std::string> lines;
  const auto text = [](const Json& json, const std::string& key) {
    return json.contains(key) ? json.at(key).dump() : std::string("nothing");
  };
  std::vector<std::string> keys;
  for (const auto& [key, value] : a.items()) keys.push_back(key);
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) keys.push_back(key);
  }
  for (const std::string& key : keys) {
    if (a.contains(key) && b.contains(key) && a.at(key) == b.at(key)) continue;
    lines.push_back(key + ": " + name_a + " has " + text(a, key) + ", " + name_b + " has " +
                    text(b, key));
  }
  return lines;
}

}  // namespace smelt::train
