// [train] and [router]: how a run trains, and what a plan of many runs has to know of it.
//
//   TrainOptions train;  read_fields(train, study.train, problems);
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "smelt/arch/execution.h"
#include "smelt/core/fields.h"

namespace smelt::plan {

enum class Schedule { kWsd, kCosine, kConstant };
enum class DecayShape { kCosine, kLinear, kSqrt };
enum class Balance { kGlobal, kRow, kBias, kOff };
enum class WriteError { kStop, kGoOn };

}  // namespace smelt::plan

template <>
struct smelt::EnumNames<smelt::plan::Schedule> {
  static constexpr std::pair<smelt::plan::Schedule, const char*> kNames[] = {
      {smelt::plan::Schedule::kWsd, "wsd"},
      {smelt::plan::Schedule::kCosine, "cosine"},
      {smelt::plan::Schedule::kConstant, "constant"}};
};
template <>
struct smelt::EnumNames<smelt::plan::DecayShape> {
  static constexpr std::pair<smelt::plan::DecayShape, const char*> kNames[] = {
      {smelt::plan::DecayShape::kCosine, "cosine"},
      {smelt::plan::DecayShape::kLinear, "linear"},
      {smelt::plan::DecayShape::kSqrt, "1-sqrt"}};
};
template <>
struct smelt::EnumNames<smelt::plan::Balance> {
  static constexpr std::pair<smelt::plan::Balance, const char*> kNames[] = {
      {smelt::plan::Balance::kGlobal, "global"},
      {smelt::plan::Balance::kRow, "row"},
      {smelt::plan::Balance::kBias, "bias"},
      {smelt::plan::Balance::kOff, "off"}};
};

template <>
struct smelt::EnumNames<smelt::plan::WriteError> {
  static constexpr std::pair<smelt::plan::WriteError, const char*> kNames[] = {
      {smelt::plan::WriteError::kStop, "stop"}, {smelt::plan::WriteError::kGoOn, "go-on"}};
};

namespace smelt::plan {

/// What AdamW can leave undecayed: each names a group of tensors.
inline constexpr const char* kParameterGroups[] = {"norms", "embedding", "head", "router"};

struct TrainOptions {
  std::int64_t steps = 1000;
  std::int64_t rows = 8;
  std::int64_t micro_rows = 0;
  arch::Precision precision = arch::Precision::kFp32;
  double init_std = 0;
  arch::Recompute recompute = arch::Recompute::kNone;
  double lr = 0.002;
  Schedule schedule = Schedule::kWsd;
  std::int64_t warmup_steps = 20;
  std::int64_t decay_steps = 0;
  DecayShape decay = DecayShape::kCosine;
  double min_lr_ratio = 0.1;
  double weight_decay = 0.1;
  std::vector<std::string> no_decay = {"norms"};
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double clip = 1.0;
  std::int64_t max_skipped = 10;
  std::int64_t checkpoint_every = 500;
  std::int64_t keep_last = 2;
  std::int64_t keep_every = 0;
  std::vector<std::int64_t> keep_steps;
  WriteError on_write_error = WriteError::kStop;
  std::int64_t eval_every = 0;
  std::int64_t eval_tokens = 100000;
  std::int64_t log_every = 1;
  std::int64_t router_every = 10;
  double peak_flops = 0;
  bool tensorboard = false;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"steps", "number of the last step; a branch counts on from its parent", "steps", 1,
                1e12},
          self.steps);
    visit(Field{"rows", "rows per step", "rows", 1, 1e9}, self.rows);
    visit(Field{"micro_rows", "rows per forward pass; rows must be a multiple; 0 = all at once",
                "rows", 0, 1e9},
          self.micro_rows);
    visit(Field{"precision",
                "factors of the matrix products; weights, sums, router, optimizer: fp32 always"},
          self.precision);
    visit(Field{"init_std",
                "standard deviation of the initial weights; 0 = sqrt(2 / (5 · hidden_size))", "", 0,
                10},
          self.init_std);
    visit(Field{"recompute",
                "what the backward pass computes again instead of keeping it: nothing, the looped "
                "span, every layer"},
          self.recompute);
    visit(Field{"lr", "stable (or largest) learning rate", "", 0, 10}, self.lr);
    visit(Field{"schedule",
                "after the warmup: wsd = stable, then the decay tail; cosine = one fall over all "
                "steps; constant"},
          self.schedule);
    visit(Field{"warmup_steps", "steps of linear warmup", "steps", 0, 1e12}, self.warmup_steps);
    visit(Field{"decay_steps", "steps of the decay tail at the end; 0 = none", "steps", 0, 1e12},
          self.decay_steps);
    visit(Field{"decay", "shape of the decay tail"}, self.decay);
    visit(Field{"min_lr_ratio", "last rate of the tail, as a share of its first", "", 0, 1},
          self.min_lr_ratio);
    visit(Field{"weight_decay", "decoupled weight decay", "", 0, 100}, self.weight_decay);
    visit(Field{"no_decay", "tensors without it: norms, embedding, head, router"}, self.no_decay);
    visit(Field{"beta1", "decay of the first moment", "", 0, 0.999999}, self.beta1);
    visit(Field{"beta2", "decay of the second moment", "", 0, 0.9999999}, self.beta2);
    visit(Field{"eps", "AdamW epsilon", "", 1e-30, 1}, self.eps);
    visit(Field{"clip", "largest global gradient norm; 0 = no clipping", "", 0, 1e30}, self.clip);
    visit(
        Field{"max_skipped", "steps with a non-finite gradient in a row that end a run as diverged",
              "steps", 1, 1e9},
        self.max_skipped);
    visit(
        Field{"checkpoint_every", "steps between checkpoints; 0 = only the last", "steps", 0, 1e12},
        self.checkpoint_every);
    visit(Field{"keep_last", "newest checkpoints kept", "", 1, 1e9}, self.keep_last);
    visit(Field{"keep_every", "checkpoints at multiples of this are never deleted; 0 = none",
                "steps", 0, 1e12},
          self.keep_every);
    visit(Field{"keep_steps", "checkpoints written at these steps and never deleted", "steps", 1,
                1e12},
          self.keep_steps);
    visit(Field{"on_write_error",
                "a checkpoint that cannot be written stops the run, or is told and tried again at "
                "the next one"},
          self.on_write_error);
    visit(Field{"eval_every", "steps between evaluations (and one at the end); 0 = none", "steps",
                0, 1e12},
          self.eval_every);
    visit(Field{"eval_tokens",
                "size of the sample of tuning documents that `smelt train` evaluates on; 0 = all",
                "tokens", 0, 1e15},
          self.eval_tokens);
    visit(Field{"log_every", "steps between lines of metrics.jsonl", "steps", 1, 1e12},
          self.log_every);
    visit(Field{"router_every", "steps between router summaries in metrics.jsonl; 0 = none",
                "steps", 0, 1e12},
          self.router_every);
    visit(Field{"peak_flops",
                "of the machine, that mfu is counted against; 0 = measured when a run starts",
                "FLOP/s", 0, 1e30},
          self.peak_flops);
    visit(Field{"tensorboard", "also writes TensorBoard event files, in tensorboard/"},
          self.tensorboard);
  }
  friend bool operator==(const TrainOptions&, const TrainOptions&) = default;
};

struct RouterOptions {
  Balance balance = Balance::kGlobal;
  bool pool_visits = false;
  double load_balance = 0.01;
  double bias_rate = 0.001;
  double z_loss = 0.001;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"balance",
                "group of the load-balance loss: the whole step (with accumulation its "
                "micro-batches so far), each row; or no such loss, but a bias that moves towards "
                "balance (bias); or neither (off)"},
          self.balance);
    visit(Field{"pool_visits", "balances a layer's visits together, not each by itself"},
          self.pool_visits);
    visit(Field{"load_balance", "coefficient of the mean load-balance loss over executed layers",
                "", 0, 1e6},
          self.load_balance);
    visit(Field{"bias_rate",
                "balance = bias: what a step adds to the choice of an expert below the mean load "
                "and takes from one above it",
                "", 0, 1},
          self.bias_rate);
    visit(Field{"z_loss", "coefficient of the mean router z-loss over executed layers", "", 0, 1e6},
          self.z_loss);
  }
  friend bool operator==(const RouterOptions&, const RouterOptions&) = default;
};

}  // namespace smelt::plan
