#include "smelt/study/sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "smelt/budget/budget.h"
#include "smelt/core/csv.h"
#include "smelt/core/file.h"
#include "smelt/core/folder_lock.h"
#include "smelt/core/parallel.h"
#include "smelt/core/table.h"
#include "smelt/data/rows.h"
#include "smelt/study/verbs.h"

namespace smelt::study {
namespace {

namespace fs = std::filesystem;

class Sweep {
 public:
  Sweep(const SweepRequest& request, train::RunConfig base)
      : request_(request),
        base_(std::move(base)),
        rates_(request.options.lr),
        store_(data::TokenStore::open(base_.data.store)),
        verbs_(request.program, static_cast<int>(base_.threads)) {
    // What concerns one run alone; a trial is told apart by its end.
    base_.train.keep_last = 1;
    base_.train.keep_every = 0;
    base_.train.keep_steps.clear();
    base_.train.eval_every = 0;
    base_.branches = {};
    std::sort(rates_.begin(), rates_.end());
    check();
  }

  SweepResult run() {
    make_folder(request_.out);
    const FolderLock lock(request_.out, "sweep", "another sweep is running in this folder");
    claim_folder();
    std::int64_t parallel = request_.options.parallel;
    if (parallel == 0) {
      parallel =
          std::max<std::int64_t>(1, static_cast<std::int64_t>(available_cores()) / base_.threads);
    }
    SweepResult result;
    result.name = base_.name;
    const TaskOptions options{"sweep " + base_.name, static_cast<int>(parallel), request_.progress,
                              request_.signal};
    result.interrupted = run_tasks(tasks(), options) == TasksStatus::kInterrupted;
    if (!result.interrupted) finish(result);
    return result;
  }

 private:
  void check() const {
    Problems problems("sweep");
    if (rates_.size() < 3) {
      problems.add(fmt::format("--lr: expected at least three rates, got {}", rates_.size()));
    }
    for (std::size_t i = 1; i < rates_.size(); ++i) {
      if (rates_[i] == rates_[i - 1])
        problems.add(fmt::format("--lr: {} is there twice", number_text(rates_[i])));
    }
    if (base_.branch) {
      problems.add("a decay branch goes on from one rate: sweep its parent", request_.run.string());
    }
    if (store_.token_count(data::Pool::kTuning) == 0) {
      problems.add("the store has no tuning documents to score the rates on",
                   base_.data.store.string());
    }
    for (const double lr : rates_) {
      const std::size_t before = problems.lines().size();
      train::validate(configuration(lr, 0), problems);
      if (problems.lines().size() > before) break;  // the others would say the same
    }
    problems.throw_if_any();
  }

  /// A folder belongs to one run, rate and seed aside.
  void claim_folder() const {
    Json own = train::identity(base_);
    own.erase("train.lr");
    const fs::path file = request_.out / "identity.json";
    const Json identity = {
        {"schema", "smelt.sweep-identity/1"}, {"run", own}, {"store", store_.fingerprint()}};
    if (!fs::exists(file)) return write_file_atomic(file, to_text(identity));
    const Json known = read_json(file);
    Problems problems("sweep", request_.out.string());
    for (const std::string& line :
         train::differences(known.at("run"), "the folder", own, request_.run.string())) {
      problems.add("the folder holds the sweep of another run: " + line);
    }
    if (known.at("store") != identity.at("store")) {
      problems.add(fmt::format("the folder holds the sweep of another token store: {}, not {}",
                               known.at("store").dump(), identity.at("store").dump()));
    }
    problems.throw_if_any();
  }

  static std::string name(double lr, std::uint64_t seed) {
    return fmt::format("lr{}-seed{}", number_text(lr), seed);
  }

  train::RunConfig configuration(double lr, std::int64_t seed) const {
    train::RunConfig run = base_;
    run.train.lr = lr;
    run.seed += static_cast<std::uint64_t>(seed);
    run.name = name(lr, run.seed);
    return run;
  }

  std::vector<Task> tasks() const {
    const double attended = data::mean_attended(store_, base_.data.row_length);
    const budget::Budget b = budget::count(base_.model, attended);
    const double per_token = b.flops_per_token + b.flops_head;
    const double tokens =
        static_cast<double>(base_.train.steps) * static_cast<double>(base_.tokens_per_step());
    std::vector<Task> all;
    // All rates of a seed before the next seed: what is there early says the most.
    for (std::int64_t seed = 0; seed < request_.options.seeds; ++seed) {
      for (const double lr : rates_) {
        const train::RunConfig run = configuration(lr, seed);
        const fs::path folder = request_.out / run.name;
        Step train =
            verbs_.train(folder, 0, run.train.steps, per_token * tokens, [run] { return run; });
        train.may_diverge = true;
        const double scored = static_cast<double>(store_.token_count(data::Pool::kTuning));
        all.push_back({run.name,
                       {train, verbs_.eval(folder, base_.data.store, data::Pool::kTuning,
                                           base_.data.row_length, per_token / 3 * scored)}});
      }
    }
    return all;
  }

  void finish(SweepResult& result) const {
    std::vector<law::RateLoss> losses;
    Csv csv{"sweep.csv", {"lr", "seed", "loss", "run"}, {}, {}};
    for (const double lr : rates_) {
      for (std::int64_t s = 0; s < request_.options.seeds; ++s) {
        const train::RunConfig run = configuration(lr, s);
        const auto loss = evaluated_loss(request_.out / run.name, data::Pool::kTuning);
        const auto seed = static_cast<std::int64_t>(run.seed);
        losses.push_back({lr, seed, loss});
        result.runs.push_back({losses.back(), run.name});
        csv.rows.push_back(
            {number_text(lr), std::to_string(seed), loss ? number_text(*loss) : "", run.name});
      }
    }
    result.curve = law::fit_rate_curve(losses);
    if (base_.train.schedule == train::Schedule::kWsd && base_.train.decay_steps == 0) {
      result.words.push_back(
          "the run has no decay: its loss at the end is that of a full rate, which favours small "
          "ones; give decay_steps");
    }
    if (request_.options.seeds == 1 && result.curve.fitted && !result.curve.spread) {
      result.words.push_back("--seeds 2 would say how far the minimum can be trusted");
    }
    write_file_atomic(request_.out / "sweep.csv", to_text(csv));
    write_file_atomic(request_.out / "sweep.json", to_text(to_json(result)));
  }

  const SweepRequest& request_;
  train::RunConfig base_;
  std::vector<double> rates_;
  data::TokenStore store_;
  Verbs verbs_;
};

}  // namespace

SweepResult run_sweep(const SweepRequest& request) {
  return Sweep(request, train::read_run_config(request.run)).run();
}

Json to_json(const SweepResult& result) {
  Json runs = Json::array();
  for (const SweepRun& run : result.runs) {
    runs.push_back({{"lr", run.result.lr},
                    {"seed", run.result.seed},
                    {"loss", run.result.loss ? Json(*run.result.loss) : Json()},
                    {"run", run.run}});
  }
  return {{"schema", "smelt.sweep/1"},
          {"name", result.name},
          {"pool", "tuning"},
          {"runs", runs},
          {"minimum", law::to_json(result.curve)},
          {"words", result.words}};
}

}  // namespace smelt::study
