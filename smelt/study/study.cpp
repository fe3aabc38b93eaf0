#include "smelt/study/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "smelt/core/file.h"
#include "smelt/core/folder_lock.h"
#include "smelt/core/parallel.h"
#include "smelt/data/rows.h"
#include "smelt/study/provenance.h"
#include "smelt/study/rates.h"
#include "smelt/study/results.h"
#include "smelt/study/tasks.h"
#include "smelt/study/verbs.h"
#include "smelt/train/run.h"

namespace smelt::study {
namespace {

using plan::Arm;
using plan::Cell;

constexpr int kTimedSteps = 8;

class Study {
 public:
  Study(const StudyRequest& request, StudySetup setup)
      : request_(request),
        setup_(std::move(setup)),
        layout_(setup_, request.out),
        store_(data::TokenStore::open(setup_.config.store)),
        verbs_(request.program, static_cast<int>(setup_.config.execution.threads)) {
    const auto cores = static_cast<std::int64_t>(available_cores());
    parallel_ = static_cast<int>(setup_.config.execution.parallel);
    if (parallel_ == 0)
      parallel_ = static_cast<int>(std::max<std::int64_t>(1, cores / verbs_.threads()));
  }

  StudyResult run() {
    make_folder(request_.out / "runs");
    const FolderLock lock(request_.out, "study", "another study is running in this folder");
    claim_folder();
    const std::string started = utc_now();
    bool done = stage("rates", rate_tasks(), parallel_);
    RateReport rates;
    if (done) {
      rates = read_rates();
      for (const std::string& line : rates.choice.words) request_.log("! " + line);
      done = stage("runs", run_tasks_of(rates.choice.chosen), parallel_) &&
             stage("step times", timing_tasks(), 1) && stage("probes", probe_tasks(), parallel_);
    }
    StudyResult result;
    result.interrupted = !done;
    if (done) result.study = finish(rates, started);
    return result;
  }

 private:
  // ---- the folder

  /// A folder belongs to one study: the same configuration and the same token store.
  void claim_folder() const {
    const Json identity = {{"schema", "smelt.study-identity/1"},
                           {"config", setup_.config.file->root().to_json()},
                           {"store", store_.fingerprint()}};
    const auto file = request_.out / "identity.json";
    if (!std::filesystem::exists(file)) {
      write_file_atomic(file, to_text(identity));
      write_file_atomic(request_.out / "study.toml", setup_.config.text);
      return;
    }
    const Json known = read_json(file);
    Problems problems("study", request_.out.string());
    const Json known_flat = known.at("config").flatten(), flat = identity.at("config").flatten();
    for (const auto& [key, value] : flat.items()) {
      if (!known_flat.contains(key)) {
        problems.add(
            fmt::format("the folder holds another study: {} = {} is new", key, value.dump()));
      } else if (known_flat[key] != value) {
        problems.add(fmt::format("the folder holds another study: {} was {}, now {}", key,
                                 known_flat[key].dump(), value.dump()));
      }
    }
    for (const auto& [key, value] : known_flat.items()) {
      if (!flat.contains(key)) {
        problems.add(
            fmt::format("the folder holds another study: {} = {} is gone", key, value.dump()));
      }
    }
    if (known.at("store") != identity.at("store")) {
      problems.add(fmt::format("the folder holds another study: its token store was {}, now {}",
                               known.at("store").dump(), identity.at("store").dump()));
    }
    if (!problems.empty()) problems.add("take another --out, or remove this folder");
    problems.throw_if_any();
  }

  // ---- steps

  Step train_step(const std::string& name, const Cell& cell, Arm arm, std::int64_t first,
                  std::int64_t last, std::function<train::RunConfig()> configure) const {
    const budget::Budget& b = cell.budget(arm);
    const double work = (b.flops_per_token + b.flops_head) * static_cast<double>(last - first) *
                        setup_.plan.tokens_per_step;
    return verbs_.train(layout_.folder(name), first, last, work, std::move(configure));
  }

  Step eval_step(const std::string& name, const Cell& cell, Arm arm, data::Pool pool) const {
    const budget::Budget& b = cell.budget(arm);
    const double work =
        (b.flops_per_token + b.flops_head) / 3 * static_cast<double>(store_.token_count(pool));
    return verbs_.eval(layout_.folder(name), setup_.config.store, pool, setup_.config.row_length,
                       work);
  }

  // ---- stages

  bool stage(const std::string& name, std::vector<Task> tasks, int parallel) {
    const auto begin = std::chrono::steady_clock::now();
    const TaskOptions options{name, parallel, request_.progress, request_.signal};
    const bool done = run_tasks(tasks, options) == TasksStatus::kDone;
    stage_seconds_[name] =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return done;
  }

  /// Rate and seed of every trial of one arm of one cell.
  std::vector<std::pair<double, std::int64_t>> trials() const {
    const plan::RateOptions& rates = setup_.config.rates;
    std::vector<std::pair<double, std::int64_t>> all;
    for (const double lr : rates.rates) {
      for (std::int64_t s = 0; s < rates.seeds; ++s) all.emplace_back(lr, rates.seed + s);
    }
    return all;
  }

  std::vector<Task> rate_tasks() const {
    std::vector<Task> tasks;
    for (const std::size_t c : setup_.plan.rate_cells) {
      const Cell& cell = setup_.plan.cells[c];
      for (const Arm arm : plan::kArms) {
        for (const auto& [lr, seed] : trials()) {
          const std::string name = Layout::trial_name(cell, arm, lr, seed);
          Step train = train_step(
              name, cell, arm, 0, layout_.trial_steps() + layout_.trial_decay_steps(),
              [this, &cell, arm, lr, seed] { return layout_.trial(cell, arm, lr, seed); });
          train.may_diverge = true;
          tasks.push_back({name, {train, eval_step(name, cell, arm, data::Pool::kTuning)}});
        }
      }
    }
    longest_first(tasks);
    return tasks;
  }

  RateReport read_rates() const {
    std::vector<RateCell> cells;
    for (const Cell& cell : setup_.plan.cells) {
      cells.push_back({cell.name,
                       {cell.budget(Arm::kBaseline).flops_per_token,
                        cell.budget(Arm::kSmelt).flops_per_token}});
    }
    RateReport report;
    if (setup_.config.rates.rates.empty()) {
      report.choice = fixed_rates(cells, setup_.train[0].lr, setup_.train[1].lr);
      return report;
    }
    for (const std::size_t c : setup_.plan.rate_cells) {
      const Cell& cell = setup_.plan.cells[c];
      for (const Arm arm : plan::kArms) {
        for (const auto& [lr, seed] : trials()) {
          const std::string name = Layout::trial_name(cell, arm, lr, seed);
          report.trials.push_back(
              {cell.name,
               arm,
               {lr, seed, evaluated_loss(layout_.folder(name), data::Pool::kTuning)},
               setup_.plan.trial_tokens,
               name});
        }
      }
    }
    report.choice = choose_rates(cells, report.trials);
    return report;
  }

  /// Per cell, seed and arm one task: the stable run, then its branches with their evaluations.
  std::vector<Task> run_tasks_of(const std::vector<ChosenRate>& rates) const {
    std::vector<Task> tasks;
    for (const std::int64_t seed : setup_.config.seeds) {
      for (const ChosenRate& rate : rates) {
        const Cell& cell = cell_named(rate.cell);
        const Arm arm = rate.arm;
        const std::string name = Layout::stable_name(cell, seed, arm);
        Task task{name, {}};
        task.steps.push_back(train_step(name, cell, arm, 0, setup_.config.horizons.steps.back(),
                                        [this, &cell, seed, arm, lr = rate.lr] {
                                          return layout_.stable(cell, seed, arm, lr);
                                        }));
        for (const std::int64_t horizon : setup_.config.horizons.steps)
          add_branch(task, cell, seed, arm, horizon);
        tasks.push_back(std::move(task));
      }
    }
    longest_first(tasks);
    return tasks;
  }

  void add_branch(Task& task, const Cell& cell, std::int64_t seed, Arm arm,
                  std::int64_t horizon) const {
    const std::string name = Layout::branch_name(cell, seed, arm, horizon);
    const std::int64_t decay = setup_.config.horizons.decay_steps;
    const auto parent = layout_.folder(Layout::stable_name(cell, seed, arm));
    task.steps.push_back(train_step(name, cell, arm, horizon, horizon + decay, [=] {
      return train::make_branch(
          parent, {.at = horizon, .decay_steps = decay, .tokens = {}, .lr_floor = {}}, name);
    }));
    Step eval = eval_step(name, cell, arm, data::Pool::kValidation);
    const double tokens = plan::endpoint_tokens(setup_.config, horizon);
    eval.done = [this, &cell, seed, tokens, arm, output = eval.output] {
      if (!request_.endpoint) return;
      const Json loss = read_json(output).at("overall").at("loss");
      request_.endpoint(
          {cell.name, seed, tokens, enum_name(arm), loss.is_number() ? loss.get<double>() : NAN});
    };
    task.steps.push_back(std::move(eval));
  }

  /// Steps of each geometry timed with nothing else running.
  std::vector<Task> timing_tasks() const {
    std::vector<Task> tasks;
    for (const Cell& cell : setup_.plan.cells) {
      for (const Arm arm : plan::kArms) {
        const auto folder =
            layout_.folder(Layout::stable_name(cell, setup_.config.seeds.front(), arm));
        Step step;
        step.output = folder / "timing.json";
        step.command = [this, folder, output = step.output] {
          return verbs_.command({"train", (folder / "run.toml").string(), "--time-steps",
                                 std::to_string(kTimedSteps)},
                                output, folder);
        };
        tasks.push_back({"timing " + folder.filename().string(), {step}});
      }
    }
    return tasks;
  }

  /// The longest runs of the last cell's first seed.
  std::vector<Task> probe_tasks() const {
    std::vector<Task> tasks;
    if (setup_.config.probe.tokens == 0) return tasks;
    for (const Arm arm : plan::kArms) {
      const std::string name =
          Layout::branch_name(setup_.plan.cells.back(), setup_.config.seeds.front(), arm,
                              setup_.config.horizons.steps.back());
      const auto folder = layout_.folder(name);
      Step step;
      step.output = folder / "probe" / "probe.json";
      step.command = [this, folder, output = step.output] {
        return verbs_.command(
            {"probe", folder.string(), "--store", setup_.config.store.string(), "--pool",
             "validation", "--tokens", std::to_string(setup_.config.probe.tokens), "--threads",
             std::to_string(verbs_.threads())},
            output, folder);
      };
      tasks.push_back({"probe " + name, {step}});
    }
    return tasks;
  }

  static void longest_first(std::vector<Task>& tasks) {
    const auto work = [](const Task& task) {
      double sum = 0;
      for (const Step& step : task.steps) sum += step.work;
      return sum;
    };
    std::stable_sort(tasks.begin(), tasks.end(),
                     [&](const Task& a, const Task& b) { return work(a) > work(b); });
  }

  const Cell& cell_named(const std::string& name) const {
    for (const Cell& cell : setup_.plan.cells) {
      if (cell.name == name) return cell;
    }
    throw Error("study", "no cell named " + name);
  }

  // ---- the end

  Json finish(const RateReport& rates, const std::string& started) {
    const auto endpoints = read_endpoints(setup_, layout_, rates.choice.chosen);
    write_file_atomic(request_.out / "endpoints.csv", to_text(endpoints_csv(setup_, endpoints)));
    Json study = study_json(setup_, layout_, rates, endpoints, [this](double done, double total) {
      if (request_.progress) {
        request_.progress(
            {.task = "laws", .done = done, .total = total, .unit = "draws", .note = ""});
      }
    });
    study["provenance"] = provenance(started);
    write_file_atomic(request_.out / "study.json", to_text(study));
    return study;
  }

  Json provenance(const std::string& started) const {
    Json pools = Json::object();
    for (const auto& [pool, name] : EnumNames<data::Pool>::kNames)
      pools[name] = store_.token_count(pool);
    // Seconds of the runs themselves, so that a resumed study adds up.
    double run_seconds = 0;
    for (const auto& entry : std::filesystem::directory_iterator(request_.out / "runs")) {
      const auto file = entry.path() / "result.json";
      if (std::filesystem::exists(file)) run_seconds += read_json(file).value("seconds", 0.0);
    }
    double seconds = 0;
    for (const auto& [name, time] : stage_seconds_) seconds += time;
    return {{"version", request_.version},
            {"commit", request_.commit},
            {"config", setup_.config.text},
            {"started", started},
            {"finished", utc_now()},
            {"seconds", seconds},
            {"stage_seconds", stage_seconds_},
            {"run_seconds", run_seconds},
            {"machine", machine()},
            {"torch", TORCH_VERSION},
            {"parallel_runs", parallel_},
            {"threads_per_run", verbs_.threads()},
            {"store",
             {{"fingerprint", store_.fingerprint()},
              {"vocab_size", store_.vocab_size()},
              {"documents", store_.documents().size()},
              {"tokens", store_.token_count()},
              {"pools", pools},
              {"mean_attended", data::mean_attended(store_, setup_.config.row_length)}}},
            {"seeds", setup_.config.seeds}};
  }

  const StudyRequest& request_;
  StudySetup setup_;
  Layout layout_;
  data::TokenStore store_;
  Verbs verbs_;
  int parallel_ = 1;
  std::map<std::string, double> stage_seconds_;
};

}  // namespace

StudyResult run_study(const StudyRequest& request) {
  return Study(request, read_study(request.config)).run();
}

}  // namespace smelt::study
