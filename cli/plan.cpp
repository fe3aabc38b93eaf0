// smelt plan: a study's cells, tokens, FLOPs and memory before anything runs.
#include "smelt/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/core/table.h"
#include "smelt/data/rows.h"
#include "smelt/law/endpoints.h"
#include "smelt/plan/memory.h"
#include "smelt/plan/power.h"
#include "smelt/plan/run_options.h"
#include "smelt/plan/suggest.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string study, endpoints;
  std::optional<double> attended;
  double flops_per_second = 0, price = 0;
  double sigma = 0, gain = 0, budget = 0;
  std::int64_t devices = 1;
  plan::TrainOptions train;                  // the study's [train]
  std::optional<arch::Recompute> recompute;  // over [train]'s
  double logits_chunk = 0;
};

/// Seconds of one device.
double device_seconds(double flops, const Options& options) {
  return flops / options.flops_per_second;
}

plan::Memory memory_of(const plan::StudyConfig& study, const arch::ModelConfig& model,
                       const Options& options) {
  plan::MemoryOptions memory;
  const auto rows = (study.rows + options.devices - 1) / options.devices;
  const std::int64_t micro_rows = options.train.micro_rows;
  const std::int64_t at_once = micro_rows > 0 ? std::min(micro_rows, rows) : rows;
  memory.tokens = static_cast<double>(at_once) * static_cast<double>(study.row_length);
  memory.recompute = options.recompute.value_or(options.train.recompute);
  memory.accumulates = at_once < rows;
  memory.devices = options.devices;
  memory.logits_chunk = options.logits_chunk;
  return plan::training_memory(model, memory);
}

/// Throughput as a run measured it: FLOPs of a step over its seconds, LM head included.
double measured_throughput(const law::Endpoints& endpoints, const plan::StudyConfig& study,
                           const plan::Plan& plan) {
  const Csv& csv = endpoints.csv;
  if (!csv.find("step_seconds") || !csv.find("cell") || !csv.find("arch")) return 0;
  double flops = 0, seconds = 0;
  for (std::size_t r = 0; r < csv.rows.size(); ++r) {
    if (csv.rows[r][csv.column("step_seconds")].empty()) continue;
    const double step_seconds = csv.number(r, csv.column("step_seconds"));
    if (!(step_seconds >= 1e-9 && step_seconds <= 1e9)) {
      throw Error("plan", fmt::format("step_seconds: expected 1e-9 to 1e9, got {}", step_seconds),
                  csv.where(r));
    }
    for (const plan::Cell& cell : plan.cells) {
      if (csv.rows[r][csv.column("cell")] != cell.name) continue;
      const auto arm = enum_from<plan::Arm>(csv.rows[r][csv.column("arch")]);
      if (!arm) continue;
      const budget::Budget& b = cell.budget(*arm);
      flops += (b.flops_per_token + b.flops_head) * static_cast<double>(study.rows) *
               static_cast<double>(study.row_length);
      seconds += step_seconds;
    }
  }
  return seconds > 0 ? flops / seconds : 0;
}

std::string cells_text(const plan::StudyConfig& study, const plan::Plan& plan,
                       const Options& options) {
  std::vector<std::string> header = {"cell",        "arm",        "hidden", "experts",
                                     "FLOPs/token", "parameters", "S",      "FLOPs off",
                                     "params off",  "KV off",     "memory", "pair, FLOPs"};
  if (options.flops_per_second > 0) header.emplace_back("device time");
  if (options.price > 0) header.emplace_back("price");
  Table table(header);
  for (const plan::Cell& cell : plan.cells) {
    for (const plan::Arm arm : plan::kArms) {
      const auto& off = cell.match.best.mismatch;
      const bool smelt_arm = arm == plan::Arm::kSmelt;
      const auto percent = [smelt_arm](double x) {
        return smelt_arm ? fmt::format("{:+.2f} %", 100 * x) : std::string("");
      };
      std::vector<std::string> row = {
          cell.name,
          enum_name(arm),
          std::to_string(cell.config(arm).hidden_size),
          std::to_string(cell.config(arm).num_experts),
          with_si(cell.budget(arm).flops_per_token),
          with_si(cell.budget(arm).parameters_total),
          fmt::format("{:.3f}", cell.sparsity[static_cast<std::size_t>(arm)]),
          percent(off.flops),
          percent(off.parameters),
          percent(off.kv_cache),
          with_si(memory_of(study, cell.config(arm), options).total()) + "B",
          smelt_arm ? with_si(cell.flops) : ""};
      if (options.flops_per_second > 0) {
        row.push_back(smelt_arm ? duration_text(device_seconds(cell.flops, options)) : "");
      }
      if (options.price > 0) {
        row.push_back(smelt_arm ? fmt::format("{:.2f}", device_seconds(cell.flops, options) / 3600 *
                                                            options.price)
                                : "");
      }
      table.add_row(row);
    }
  }
  return table.text();
}

plan::Memory largest_memory(const plan::StudyConfig& study, const plan::Plan& plan,
                            const Options& options) {
  plan::Memory largest;
  for (const plan::Cell& cell : plan.cells) {
    for (const plan::Arm arm : plan::kArms) {
      const plan::Memory memory = memory_of(study, cell.config(arm), options);
      if (memory.total() > largest.total()) largest = memory;
    }
  }
  return largest;
}

/// The largest model's memory by its parts.
std::string memory_text(const plan::StudyConfig& study, const plan::Plan& plan,
                        const Options& options) {
  const plan::Memory largest = largest_memory(study, plan, options);
  return fmt::format(
      "memory of the largest model on one device: {}B (weights {}B, gradients {}B, moments {}B, "
      "activations {}B, logits {}B, program {}B)\n",
      with_si(largest.total()), with_si(largest.weights), with_si(largest.gradients),
      with_si(largest.moments), with_si(largest.activations), with_si(largest.logits),
      with_si(largest.program));
}

/// What the seeds can resolve, as text and JSON.
std::pair<std::string, Json> power(const plan::StudyConfig& study, const plan::Plan& plan,
                                   const Options& options,
                                   const std::optional<plan::Noise>& measured) {
  plan::Noise noise = measured.value_or(plan::Noise{});
  if (options.sigma > 0) {
    noise.gap_deviation = options.sigma;
    noise.deviation_words =
        fmt::format("a pair's gap varies by {:.4f} nats between seeds, as given", options.sigma);
  }
  if (!measured && options.sigma == 0) return {"", Json()};
  const std::string words =
      noise.deviation_words + (noise.worth_words.empty() ? "" : "; " + noise.worth_words);
  if (!noise.gap_deviation) return {"! " + words + "\n", {{"words", words}}};
  const std::size_t cells = plan.cells.size(), seeds = study.seeds.size();
  Json json = {{"gap_deviation", *noise.gap_deviation}, {"words", words}};
  std::string text = words + "\n";
  const auto gap = plan::detectable_gap(*noise.gap_deviation, cells, seeds);
  if (!gap) return {text + "one seed resolves nothing\n", json};
  json["detectable_gap"] = *gap;
  text +=
      fmt::format("{} cells x {} seeds resolve a mean gap of {:.4f} nats (5 % level, 80 % power)",
                  cells, seeds, *gap);
  if (noise.loss_per_efold) {
    const double gain = plan::gain_of_gap(*gap, *noise.loss_per_efold);
    json["loss_per_efold"] = *noise.loss_per_efold;
    json["detectable_gain"] = gain;
    text += fmt::format(": a compute saving of {:.1f} %", 100 * gain);
  }
  text += '\n';
  if (options.gain > 0) {
    if (!noise.loss_per_efold) {
      throw Error("plan", "--gain needs to know what compute is worth: " + noise.worth_words,
                  options.endpoints);
    }
    const double wanted = plan::gap_of_gain(options.gain, *noise.loss_per_efold);
    const auto needed = plan::seeds_for_gap(wanted, *noise.gap_deviation, cells);
    json["seeds_needed"] = needed ? Json(*needed) : Json();
    text += needed
                ? fmt::format("a saving of {:.1f} % ({:.4f} nats) needs {} seeds\n",
                              100 * options.gain, wanted, *needed)
                : fmt::format("a saving of {:.1f} % ({:.4f} nats) is out of reach of 1000 seeds\n",
                              100 * options.gain, wanted);
  }
  return {text, json};
}

/// Checks the training tables key by key; what a study asks of them beyond that it says when it
/// starts.  Returns [train].
plan::TrainOptions read_training(const plan::StudyConfig& study, Problems& problems) {
  plan::TrainOptions common;
  read_fields(common, study.train, problems);
  for (const TomlTable& own : {study.train_baseline, study.train_smelt}) {
    plan::TrainOptions arm = common;
    read_fields(arm, own, problems);
    if (own.has("rows")) {
      problems.add("rows: both arms of a pair read the same rows; set it in [train]",
                   own.where("rows"));
    }
  }
  plan::RouterOptions router;
  read_fields(router, study.router, problems);
  if (common.micro_rows > 0 && study.rows % common.micro_rows != 0) {
    problems.add(fmt::format("micro_rows: expected a divisor of rows = {}, got {}", study.rows,
                             common.micro_rows),
                 study.train.where("micro_rows"));
  }
  return common;
}

std::string to_text(const plan::StudyConfig& study, const plan::Plan& plan,
                    const Options& options) {
  std::string text = cells_text(study, plan, options) + "\n";
  text +=
      fmt::format("{} pairs x {} seeds, {} tokens a run with its {} branches\n", plan.cells.size(),
                  study.seeds.size(), with_si(plan.pair_tokens), study.horizons.steps.size());
  text += fmt::format("{:.0f} learning-rate trials of {} tokens\n", plan.trials,
                      with_si(plan.trial_tokens));
  text += fmt::format("FLOPs: {} trials + {} runs = {} (LM head included)\n",
                      with_si(plan.flops_trials), with_si(plan.flops_runs), with_si(plan.flops));
  if (options.flops_per_second > 0) {
    const double seconds = device_seconds(plan.flops, options);
    // The device with the most rows decides when a step ends.
    const auto rows = static_cast<double>(study.rows);
    const double share = std::ceil(rows / static_cast<double>(options.devices)) / rows;
    text += fmt::format("at {} FLOP/s a device: {:.3g} device-hours",
                        with_si(options.flops_per_second), seconds / 3600);
    text += options.devices > 1
                ? fmt::format(", {} on {} devices", duration_text(seconds * share), options.devices)
                : fmt::format(" ({})", duration_text(seconds));
    if (options.price > 0) {
      text += fmt::format(", price {:.2f}", seconds / 3600 * options.price);
    }
    text += '\n';
  }
  text += memory_text(study, plan, options);
  text += fmt::format("checkpoints on disk: {}B\n", with_si(plan.checkpoint_bytes));
  return text;
}

void run(Session& session, Options options) {
  Problems problems("plan", options.study);
  plan::StudyConfig study = plan::read_study_config(options.study, problems);
  options.train = read_training(study, problems);
  study.file->report_unread(problems);
  problems.throw_if_any();

  double attended = options.attended.value_or(budget::kPaperAttended);
  std::int64_t vocab_size = 32768;
  if (std::filesystem::exists(study.store)) {
    const auto store = data::TokenStore::open(study.store);
    if (!options.attended) attended = data::mean_attended(store, study.row_length);
    vocab_size = store.vocab_size();
  } else {
    const bool unnamed =
        std::any_of(study.scales.begin(), study.scales.end(),
                    [](const plan::Scale& scale) { return scale.baseline.vocab_size == 0; });
    warn(session, fmt::format("no token store at {}: counted with {} attended positions{}",
                              study.store.string(), attended,
                              unnamed ? fmt::format(" and a vocabulary of {}", vocab_size) : ""));
  }
  const plan::Plan plan = plan::make_plan(study, attended, vocab_size);
  std::optional<plan::Noise> noise;
  if (!options.endpoints.empty()) {
    const law::Endpoints endpoints = law::read_endpoints(options.endpoints);
    noise = plan::noise_of(endpoints);
    if (options.flops_per_second == 0) {
      options.flops_per_second = measured_throughput(endpoints, study, plan);
    }
  }
  if (options.price > 0 && options.flops_per_second == 0) {
    throw Error("plan",
                "--price needs --flops-per-second, or --endpoints with step_seconds of "
                "this study's cells");
  }
  const auto [power_text, power_json] = power(study, plan, options, noise);
  Json json = plan::to_json(plan);
  json["attended"] = attended;
  for (std::size_t c = 0; c < plan.cells.size(); ++c) {
    Json memory;
    for (const plan::Arm arm : plan::kArms) {
      memory[enum_name(arm)] = plan::to_json(memory_of(study, plan.cells[c].config(arm), options));
    }
    json["cells"][c]["memory"] = memory;
  }
  json["memory_bytes"] = largest_memory(study, plan, options).total();
  std::string text = to_text(study, plan, options) + power_text;
  json["power"] = power_json;
  if (options.flops_per_second > 0) {
    const double hours = device_seconds(plan.flops, options) / 3600;
    json["flops_per_second"] = options.flops_per_second;
    json["device_hours"] = hours;
    if (options.price > 0) json["price"] = hours * options.price;
  }
  if (options.budget > 0) {
    plan::StudyConfig grid = study;
    grid.scales = plan::suggest_scales(study);
    const plan::Plan cells = plan::make_plan(grid, attended, vocab_size);
    grid.horizons = plan::horizons_for(grid, cells, options.budget);
    json["suggested_horizons"] = fields_to_json(grid.horizons);
    json["suggested_cells"] = cells.cells.size();
    json["suggested_words"] = cells.words;
    text += fmt::format("{} FLOPs pay for this grid of {} cells x {} seeds:\n\n{}\n",
                        with_si(options.budget), cells.cells.size(), study.seeds.size(),
                        plan::to_toml(grid.scales, grid.horizons));
    for (const std::string& line : cells.words) text += "! of this grid: " + line + "\n";
  }
  for (const std::string& line : plan.words) text += "! " + line + "\n";
  print_result(session, json, text);
}

}  // namespace

void add_plan(CLI::App& program, Session& session) {
  CLI::App& verb = new_verb(
      program, session, "plan", "What a study will cost and resolve, before anything runs",
      "smelt plan configs/quick.toml --flops-per-second 3e10\n"
      "  smelt plan configs/overnight.toml --endpoints runs/quick/endpoints.csv --gain 0.1\n"
      "  smelt plan study.toml --flops-per-second 4e14 --devices 8 --price 2.5 --budget 1e21");
  auto options = std::make_shared<Options>();
  verb.add_option("STUDY.toml", options->study, "study configuration")->required();
  verb.add_option("--attended", options->attended,
                  "mean attended positions per token (default: the token store's)")
      ->check(within(0.0, 1e12));
  verb.add_option("--flops-per-second", options->flops_per_second,
                  "sustained training throughput of one device (what a run occupies), for hours")
      ->check(within(1.0, 1e30));
  verb.add_option("--devices", options->devices, "devices a run's rows are spread over")
      ->check(within(1, 1e6))
      ->capture_default_str();
  verb.add_option("--price", options->price, "of one device for an hour, in your currency")
      ->check(within(0.0, 1e12));
  verb.add_option_function<std::string>(
          "--recompute",
          [options](const std::string& name) {
            options->recompute = enum_from<arch::Recompute>(name).value();
          },
          "what the backward pass recomputes (default: as in [train])")
      ->check(CLI::IsMember(enum_choices<arch::Recompute>()));
  verb.add_option("--logits-chunk", options->logits_chunk,
                  "tokens whose logits exist at once (0 = as the engine does it)")
      ->check(within(0.0, 1e12))
      ->capture_default_str();
  CLI::Option* endpoints = verb.add_option(
      "--endpoints", options->endpoints,
      "endpoints.csv of an earlier study: noise, what tokens are worth, throughput");
  verb.add_option("--sigma", options->sigma,
                  "deviation of a pair's loss gap between seeds, nats (over --endpoints')")
      ->check(within(1e-12, 1e6));
  verb.add_option("--gain", options->gain,
                  "compute saving to resolve, a share: seeds that it needs (with --endpoints)")
      ->needs(endpoints)
      ->check(within(1e-6, 0.999));
  verb.add_option("--budget", options->budget, "FLOPs to spend: a grid that they pay for")
      ->check(within(1.0, 1e40));
  verb.callback([&session, options] { run(session, *options); });
}

}  // namespace smelt::cli
