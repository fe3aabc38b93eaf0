#include "smelt/train/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "smelt/core/file.h"
#include "smelt/core/folder_lock.h"
#include "smelt/core/table.h"
#include "smelt/model/weights.h"
#include "smelt/train/checkpoint.h"
#include "smelt/train/metrics.h"
#include "smelt/train/process.h"
#include "smelt/train/speed.h"
#include "smelt/train/stepper.h"
#include "smelt/train/tensorboard.h"

namespace smelt::train {
namespace {

namespace fs = std::filesystem;

/// Where this call starts: weights, moments and state.
struct Start {
  model::Decoder decoder;
  Moments moments;
  TrainState state;
  fs::path checkpoint;  // of this run; empty when it starts anew
};

/// Keys of identity() that a resumed run may change when it is told so: none of them touches what
/// the tensors and the data order are.
bool safe_to_change(const std::string& line) {
  return line.starts_with("train.") || line.starts_with("router.") || line.starts_with("threads") ||
         line.starts_with("version.");
}

void check_same_run(const Checkpoint& checkpoint, const RunConfig& config, const std::string& order,
                    const Callbacks& callbacks) {
  const TrainState& state = checkpoint.state;
  const std::string where = checkpoint.folder.string();
  std::vector<std::string> changes =
      differences(state.identity, "the checkpoint", identity(config), "run.toml");
  for (const std::string& line :
       differences(state.versions, "the checkpoint", program_versions(), "this program")) {
    changes.push_back("version." + line);
  }
  std::vector<std::string> lines;
  bool all_safe = true;
  for (const std::string& change : changes) {
    const bool safe = safe_to_change(change);
    if (safe && callbacks.accept_changes) {
      if (callbacks.log) callbacks.log("resumes with a change: " + change);
      continue;
    }
    all_safe = all_safe && safe;
    lines.push_back(Error("train", "cannot resume: " + change, where).what());
  }
  if (state.order_fingerprint != order) {
    all_safe = false;
    lines.push_back(Error("train",
                          "cannot resume on another data order: the checkpoint has fingerprint " +
                              state.order_fingerprint + ", the store " +
                              config.data.store.string() + " gives " + order,
                          where)
                        .what());
  }
  if (state.step > config.train.steps) {
    all_safe = false;
    lines.push_back(
        Error("train",
              fmt::format("cannot resume: the checkpoint is at step {}, run.toml ends at step {}",
                          state.step, config.train.steps),
              where)
            .what());
  }
  if (lines.empty()) return;
  if (all_safe) lines.push_back("[train] --accept-changes resumes all the same");
  throw Error(lines);
}

Start start_branch(const RunConfig& config) {
  const BranchPoint& branch = *config.branch;
  Checkpoint parent = read_checkpoint(branch.parent / "checkpoints" / checkpoint_name(branch.step));
  arch::ModelConfig theirs = parent.decoder.config, own = config.model;
  theirs.kept = own.kept = Json::object();
  if (!(own == theirs)) {
    throw Error("train", "the parent's model is not the branch's [model]", parent.folder.string());
  }
  Start start{std::move(parent.decoder), std::move(parent.moments), {}, {}};
  start.state.step = parent.state.step;
  start.state.tokens = parent.state.tokens;
  start.state.optimizer_updates = parent.state.optimizer_updates;
  start.state.last_loss = parent.state.last_loss;
  start.state.loss_mean = parent.state.loss_mean;
  start.state.loss_square = parent.state.loss_square;
  start.state.next_row = config.data.first_row;
  return start;
}

Start find_start(const RunConfig& config, const fs::path& folder, const std::string& order,
                 const Callbacks& callbacks, Collectives& ranks) {
  std::string newest;
  if (ranks.leads()) {
    remove_partial_checkpoints(folder);
    newest = find_latest_sound(folder, callbacks.log).string();
  }
  ranks.broadcast(newest);
  if (!newest.empty()) {
    Checkpoint checkpoint = read_checkpoint(newest);
    check_same_run(checkpoint, config, order, callbacks);
    checkpoint.state.identity = identity(config);
    return {std::move(checkpoint.decoder), std::move(checkpoint.moments),
            std::move(checkpoint.state), newest};
  }
  Start start;
  if (config.branch) {
    start = start_branch(config);
  } else {
    start.decoder = model::init_decoder(config.model, config.seed, config.train.init_std);
    start.moments = zero_moments(model::named_parameters(start.decoder));
    start.state.next_row = config.data.first_row;
  }
  start.state.order_fingerprint = order;
  start.state.identity = identity(config);
  return start;
}

/// The folder's run.toml becomes the complete one; a file of the user's that says less is kept
/// beside it.
void place_run_config(const RunConfig& config, const fs::path& folder) {
  const fs::path file = folder / "run.toml";
  const std::string text = to_toml(config, file);
  if (fs::exists(file)) {
    const std::string old = read_file(file);
    if (old == text) return;
    if (!old.starts_with(text.substr(0, text.find('\n')))) {
      write_file_atomic(folder / "run.given.toml", old);
    }
  }
  write_file_atomic(file, text);
}

/// A loss this many standard deviations above its running mean is reported.
constexpr double kSpike = 6;
/// Share of a new loss in the running means, and updates before they are trusted.
constexpr double kNewest = 0.02;
constexpr std::int64_t kSettled = 50;

/// Brings the running means up to date; whether the step's loss stands out of them.
bool loss_spikes(TrainState& state, double loss) {
  if (!std::isfinite(loss)) return false;
  const double spread = std::sqrt(std::max(0.0, state.loss_square - std::pow(state.loss_mean, 2)));
  const bool spike = state.optimizer_updates > kSettled && loss > state.loss_mean + kSpike * spread;
  const double share = state.loss_mean == 0 ? 1 : kNewest;
  state.loss_mean += share * (loss - state.loss_mean);
  state.loss_square += share * (loss * loss - state.loss_square);
  return spike;
}

/// The loop over steps with all that surrounds it.
class Trainer {
 public:
  Trainer(const RunConfig& config, fs::path folder, const Callbacks& callbacks, Start start,
          data::RowStream rows, Collectives& ranks)
      : config_(config),
        kept_steps_(config.kept_steps()),
        folder_(std::move(folder)),
        callbacks_(callbacks),
        ranks_(ranks),
        state_(std::move(start.state)),
        checkpoint_(std::move(start.checkpoint)),
        saved_step_(checkpoint_.empty() ? config.first_step() : state_.step),
        resumed_from_(state_.step),
        tokenizer_(read_tokenizer(rows.store().folder())),
        domains_(rows.store().domains()),
        peak_flops_(config.train.peak_flops),
        stepper_(config, std::move(start.decoder), std::move(start.moments), std::move(rows),
                 ranks) {
    if (peak_flops_ == 0) peak_flops_ = measured_peak_flops(config.train.precision);
    peak_flops_ *= ranks.size();
    if (!ranks.leads()) return;
    metrics_.emplace(folder_ / "metrics.jsonl", state_.step);
    if (config.train.tensorboard) events_.emplace(folder_ / "tensorboard", state_.step);
  }

  RunResult train() {
    const auto begin = std::chrono::steady_clock::now();
    const RunStatus status = loop();
    RunResult result = report(status);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }

 private:
  static std::string read_tokenizer(const fs::path& store) {
    const fs::path file = store / "tokenizer.model";
    return fs::exists(file) ? read_file(file) : std::string();
  }

  RunStatus loop() {
    const std::int64_t last = config_.train.steps;
    if (state_.skipped_in_a_row >= config_.train.max_skipped) return RunStatus::kDiverged;
    const bool evaluated = ranks_.any(metrics_ && metrics_->has_evaluation());
    if (state_.step > config_.first_step() && !evaluated && !evaluate()) return interrupted();
    if (state_.step == last && saved_step_ == last && !checkpoint_.empty()) {
      return RunStatus::kAlreadyFinished;
    }
    while (state_.step < last) {
      const auto record = stepper_.advance(state_, callbacks_.stop);
      if (!record) return interrupted();
      after_step(*record);
      if (state_.skipped_in_a_row >= config_.train.max_skipped) {
        save(/*must=*/true);
        return RunStatus::kDiverged;
      }
      if (!evaluate()) return interrupted();
      if (checkpoint_due()) save(/*must=*/state_.step == last);
    }
    return RunStatus::kFinished;
  }

  RunStatus interrupted() {
    if (state_.step > saved_step_) save(/*must=*/true);
    return RunStatus::kInterrupted;
  }

  void after_step(const StepRecord& record) {
    const bool spike = loss_spikes(state_, record.losses.loss);
    if (!ranks_.leads()) return;
    if (state_.step % config_.train.log_every == 0 || state_.step == config_.train.steps ||
        record.update.skipped() || spike) {
      write_metrics(metrics_line(record, spike));
    }
    if (record.update.skipped()) {
      const auto& names = record.update.non_finite;
      log(fmt::format("step {} skipped: not finite: {}{}", state_.step, names.front(),
                      names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : ""));
    }
    if (spike) {
      log(fmt::format("loss spike at step {}: {:.4f}, the running mean is {:.4f}", state_.step,
                      record.losses.loss, state_.loss_mean));
    }
    watch_clipping(record.update);
    if (callbacks_.progress) {
      const auto tokens = static_cast<double>(config_.tokens_per_step());
      callbacks_.progress({"train " + config_.name,
                           static_cast<double>(state_.step - config_.first_step()) * tokens,
                           static_cast<double>(config_.train.steps - config_.first_step()) * tokens,
                           "tokens", fmt::format("loss {:.3f}", record.losses.loss)});
    }
  }

  Json metrics_line(const StepRecord& record, bool spike) const {
    const StepLosses& losses = record.losses;
    const double speed = static_cast<double>(config_.tokens_per_step()) / record.seconds;
    const double flops = speed * flops_per_token(config_.model, record.attended);
    Json line = {{"step", state_.step},
                 {"tokens", state_.tokens},
                 {"loss", losses.loss},
                 {"objective", losses.objective},
                 {"load_balance", losses.load_balance},
                 {"z_loss", losses.z_loss},
                 {"lr", record.lr},
                 {"grad_norm", record.update.grad_norm},
                 {"seconds", record.seconds},
                 {"tokens_per_second", speed},
                 {"flops_per_second", flops},
                 {"mfu", flops / peak_flops_},
                 {"peak_rss_bytes", peak_rss_bytes()}};
    for (std::size_t d = 0; d < losses.domain_loss.size(); ++d) {
      if (std::isfinite(losses.domain_loss[d]))
        line["domains"][domains_[d]] = losses.domain_loss[d];
    }
    if (spike) line["spike"] = true;
    if (record.update.skipped()) line["skipped"] = record.update.non_finite;
    const std::int64_t every = config_.train.router_every;
    if (every > 0 && (state_.step % every == 0 || state_.step == config_.train.steps)) {
      line["router"] = to_json(router_loads(stepper_.decoder(), losses.counts));
    }
    return line;
  }

  void write_metrics(const Json& line) {
    try {
      metrics_->append(line);
      if (events_) events_->add(line.at("step").get<std::int64_t>(), scalars(line));
    } catch (const Error& error) {
      if (config_.train.on_write_error == WriteError::kStop) throw;
      log(std::string(error.what()) + ": goes on");
    }
  }

  /// Gradients clipped to next to nothing fall under AdamW's eps: a run that stands still without a
  /// word.
  void watch_clipping(const UpdateResult& update) {
    const bool heavy = config_.train.clip > 0 && update.grad_norm * 1e-4 > config_.train.clip;
    heavily_clipped_ = heavy ? heavily_clipped_ + 1 : 0;
    if (heavily_clipped_ == 20) {
      log(fmt::format(
          "gradients are clipped by more than 10,000 for 20 steps (norm {:.3g} at step {})",
          update.grad_norm, state_.step));
    }
  }

  /// False when it was cut short.
  bool evaluate() {
    const std::int64_t every = config_.train.eval_every;
    const bool due = every > 0 && (state_.step % every == 0 || state_.step == config_.train.steps);
    if (!due || !callbacks_.evaluate) return true;
    bool cut = false;
    if (ranks_.leads()) {
      torch::NoGradGuard no_grad;
      const Json scores = callbacks_.evaluate(state_.step, stepper_.decoder());
      cut = scores.is_null();
      if (!cut) write_metrics({{"step", state_.step}, {"eval", scores}});
    }
    return !ranks_.any(cut);
  }

  bool checkpoint_due() const {
    const TrainOptions& train = config_.train;
    return state_.step == train.steps ||
           (train.checkpoint_every > 0 && state_.step % train.checkpoint_every == 0) ||
           (train.keep_every > 0 && state_.step % train.keep_every == 0) ||
           std::find(kept_steps_.begin(), kept_steps_.end(), state_.step) != kept_steps_.end();
  }

  /// With on_write_error = "go-on" a checkpoint that must not be lost still throws.
  void save(bool must) {
    const Moments moments = stepper_.moments();
    std::string written;
    if (ranks_.leads()) {
      try {
        metrics_->sync();
        written =
            write_checkpoint(folder_, state_, stepper_.decoder(), moments, tokenizer_).string();
        prune_checkpoints(folder_, config_.train.keep_last, kept_steps_, config_.train.keep_every);
      } catch (const Error& error) {
        if (must || config_.train.on_write_error == WriteError::kStop) throw;
        log(std::string(error.what()) + ": goes on without this checkpoint");
      }
    }
    ranks_.broadcast(written);
    if (written.empty()) return;
    checkpoint_ = written;
    saved_step_ = state_.step;
  }

  RunResult report(RunStatus status) const {
    RunResult result;
    result.status = status;
    result.name = config_.name;
    result.step = state_.step;
    result.tokens = state_.tokens;
    result.loss = state_.last_loss;
    result.skipped_steps = state_.skipped_steps;
    result.resumed_from = resumed_from_;
    result.data_fingerprint = state_.data_fingerprint;
    result.checkpoint = checkpoint_;
    return result;
  }

  void log(const std::string& line) const {
    if (callbacks_.log) callbacks_.log(line);
  }

  RunConfig config_;
  std::vector<std::int64_t> kept_steps_;
  fs::path folder_;
  Callbacks callbacks_;
  Collectives& ranks_;
  TrainState state_;
  fs::path checkpoint_;
  std::int64_t saved_step_;
  std::int64_t resumed_from_;
  std::string tokenizer_;
  std::vector<std::string> domains_;
  double peak_flops_;                   // of all ranks
  std::optional<MetricsFile> metrics_;  // of rank 0
  std::optional<EventFile> events_;
  Stepper stepper_;
  int heavily_clipped_ = 0;
};

void describe(const RunConfig& config, const Start& start, const data::RowStream& rows,
              const LogSink& log) {
  if (!log) return;
  const auto needed = static_cast<double>(config.train.steps - config.first_step()) *
                      static_cast<double>(config.train.rows);
  std::string text = fmt::format(
      "{}: {} rows of {} tokens a step, every document masked from the others, data order {}",
      config.name, config.train.rows, config.data.row_length, start.state.order_fingerprint);
  if (start.state.step > config.first_step())
    text += fmt::format(", resumed behind step {}", start.state.step);
  log(text);
  const double epochs = (static_cast<double>(config.data.first_row) + needed) /
                        static_cast<double>(rows.rows_per_epoch());
  if (epochs > 1) {
    log(fmt::format("{}: reads the {} pool {:.2f} times", config.name, enum_name(config.data.pool),
                    epochs));
  }
}

}  // namespace

data::RowStream open_rows(const RunConfig& config) {
  Problems problems("train");
  validate(config, problems);
  problems.throw_if_any();
  const auto store = data::TokenStore::open(config.data.store);
  if (store.vocab_size() > config.model.vocab_size) {
    throw Error("train",
                fmt::format("the store has {} token ids, the model's vocab_size is {}",
                            store.vocab_size(), config.model.vocab_size),
                config.data.store.string());
  }
  return data::RowStream(store, config.data.pool, config.seed, config.data.row_length);
}

namespace {

RunResult run_alone(const RunConfig& config, const fs::path& folder, Callbacks callbacks,
                    Collectives& ranks) {
  data::RowStream rows = open_rows(config);
  std::optional<FolderLock> lock;
  if (ranks.leads()) {
    make_folder(folder);
    lock.emplace(folder, "train", "another process is training in this folder");
  } else {
    callbacks.log = {};
    callbacks.progress = {};
  }
  const ProcessSettings settings(config.threads);
  Start start = find_start(config, folder, rows.order_fingerprint(), callbacks, ranks);
  if (ranks.leads()) {
    place_run_config(config, folder);
    describe(config, start, rows, callbacks.log);
  }
  Trainer trainer(config, folder, callbacks, std::move(start), std::move(rows), ranks);
  return trainer.train();
}

bool ended_well(RunStatus status) {
  return status == RunStatus::kFinished || status == RunStatus::kAlreadyFinished;
}

}  // namespace

RunResult run(const RunConfig& config, const fs::path& folder, const Callbacks& callbacks,
              Collectives& ranks) {
  RunResult result = run_alone(config, folder, callbacks, ranks);
  const BranchPlan& plan = config.branches;
  for (const std::int64_t at : plan.at) {
    if (!ended_well(result.branches.empty() ? result.status : result.branches.back().status)) break;
    const std::string name = config.name + "-" + checkpoint_name(at);
    const RunConfig branch = make_branch(
        folder, {.at = at, .decay_steps = plan.decay_steps, .tokens = plan.tokens, .lr_floor = {}},
        name);
    result.branches.push_back(
        run_alone(branch, folder / "branches" / checkpoint_name(at), callbacks, ranks));
  }
  return result;
}

Json to_json(const RunResult& result) {
  Json json = {{"schema", "smelt.train/1"},
               {"status", enum_name(result.status)},
               {"name", result.name},
               {"step", result.step},
               {"tokens", result.tokens},
               {"loss", result.loss},
               {"skipped_steps", result.skipped_steps},
               {"resumed_from", result.resumed_from},
               {"seconds", result.seconds},
               {"data_fingerprint", result.data_fingerprint},
               {"checkpoint", result.checkpoint.string()}};
  for (const RunResult& branch : result.branches) json["branches"].push_back(to_json(branch));
  return json;
}

}  // namespace smelt::train
