// What a study is to do: the TOML file of `smelt study`.
//
//   name = "quick"            seeds = [1, 2]
//   [data]     store, row_length
//   [baseline] geometry shared by all scales, or config = "config.json"
//   [[scale]]  name, experts = [16, 32], and the geometry of this scale
//   [loop]     span, visits and the matcher's tolerances
//   [train]    rows, lr, …;  [train.baseline], [train.smelt] for one arm;  [router]
//   [horizons] steps of the stable run at which decay branches fork; decay_steps
//   [rates]    try = […]: learning rates tried per arm before anything else
//   [law], [probe], [run]
//
//   StudyConfig study = read_study_config("configs/quick.toml");
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "smelt/arch/model_config.h"
#include "smelt/budget/match.h"
#include "smelt/core/fields.h"
#include "smelt/core/toml.h"

namespace smelt::plan {

/// The two arms of a pair.
enum class Arm { kBaseline, kSmelt };
inline constexpr std::array kArms = {Arm::kBaseline, Arm::kSmelt};

inline constexpr double kMostSteps = 1e9;

/// Cells whose learning rates are tried; the others' lie between theirs.
enum class RateCells { kEnds, kAll };

}  // namespace smelt::plan

template <>
struct smelt::EnumNames<smelt::plan::RateCells> {
  static constexpr std::pair<smelt::plan::RateCells, const char*> kNames[] = {
      {smelt::plan::RateCells::kEnds, "ends"}, {smelt::plan::RateCells::kAll, "all"}};
};

namespace smelt::plan {

/// How learning rates are chosen.
struct RateOptions {
  std::vector<double> rates;  // empty: [train] lr, per arm, as the user fixed it
  RateCells cells = RateCells::kEnds;
  std::int64_t seed = 101;       // of the trials; endpoints use other seeds
  std::int64_t seeds = 1;        // per rate: seed, seed + 1, …
  std::int64_t steps = 0;        // of the stable part of a trial; 0: the first horizon
  std::int64_t decay_steps = 0;  // 0: as the endpoints

  /// Trials of one arm of one cell.
  double runs() const { return static_cast<double>(rates.size()) * static_cast<double>(seeds); }

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(
        Field{"try", "learning rates tried per arm; none: [train] lr is used as it is", "", 1e-12},
        self.rates);
    visit(Field{"cells",
                "where rates are tried: the cells of least and most FLOPs per token, or all"},
          self.cells);
    visit(Field{"seed", "first seed of the trials", "", 0}, self.seed);
    visit(Field{"seeds", "seeds per rate: seed, seed + 1, …", "", 1, 1000}, self.seeds);
    visit(Field{"steps", "stable steps of a trial; 0: the first horizon", "steps", 0, kMostSteps},
          self.steps);
    visit(
        Field{"decay_steps", "decay steps of a trial; 0: as the endpoints", "steps", 0, kMostSteps},
        self.decay_steps);
  }
};

struct LawOptions {
  std::string form = "auto";  // smelt, or what the grid can support
  std::int64_t draws = 500;   // bootstrap draws
  std::vector<double>
      compute;  // budgets of the CE Gain, FLOPs; none: the middle and end of the data

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"form", "law form, or auto: the largest one that the grid can support"}, self.form);
    visit(Field{"draws", "bootstrap draws over cells", "", 0, 1e6}, self.draws);
    visit(Field{"compute", "budgets at which the CE Gain is told", "FLOPs", 1}, self.compute);
  }
};

struct ProbeOptions {
  std::int64_t tokens = 20000;  // 0: no probe

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"tokens", "held-out tokens the probes look at; 0: none", "tokens", 0}, self.tokens);
  }
};

struct ExecutionOptions {
  std::int64_t parallel = 0;  // 0: one run per `threads` cores
  std::int64_t threads = 1;   // of each run, the arms of a pair alike

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"parallel", "runs side by side; 0: as many as the cores allow", "", 0, 1024},
          self.parallel);
    visit(Field{"threads", "threads of each run", "", 1, 1024}, self.threads);
  }
};

struct HorizonOptions {
  std::vector<std::int64_t> steps;  // of the stable run; a decay branch forks at each
  std::int64_t decay_steps = 0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"steps", "steps of the stable run at which decay branches fork", "steps", 1,
                kMostSteps},
          self.steps);
    visit(
        Field{"decay_steps", "steps of each decay branch, on fresh tokens", "steps", 1, kMostSteps},
        self.decay_steps);
  }
};

/// One scale: a Baseline geometry, in several sparsities by its number of experts.
struct Scale {
  std::string name;
  arch::ModelConfig baseline;
  std::vector<std::int64_t> experts;
};

struct StudyConfig {
  std::string name;
  std::vector<std::int64_t> seeds;
  std::filesystem::path store;  // token store, resolved against the file
  std::int64_t row_length = 512;
  std::int64_t rows = 8;  // per step
  std::vector<Scale> scales;
  budget::MatchOptions match;
  HorizonOptions horizons;
  RateOptions rates;
  LawOptions law;
  ProbeOptions probe;
  ExecutionOptions execution;

  /// What the training verb reads, with the places of the keys: [train], its two arms, [router].
  TomlTable train, train_baseline, train_smelt, router;
  std::shared_ptr<TomlFile> file;
  std::string text;  // the file as it is
};

/// Reads all of the file but the training tables, whose keys it leaves to the caller (who then
/// calls `file->report_unread`).  Problems are added, not thrown; a file that is missing or is no
/// TOML throws Error.
StudyConfig read_study_config(const std::filesystem::path& file, Problems& problems);

}  // namespace smelt::plan

template <>
struct smelt::EnumNames<smelt::plan::Arm> {
  static constexpr std::pair<smelt::plan::Arm, const char*> kNames[] = {
      {smelt::plan::Arm::kBaseline, "baseline"}, {smelt::plan::Arm::kSmelt, "smelt"}};
};
