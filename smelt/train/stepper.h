// One step after another: rows of the data order → gradient → update.  What `run` and `time_steps`
// share.
//
//   Stepper stepper(config, decoder, moments, rows);
//   while (state.step < config.train.steps) stepper.advance(state, stop);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "smelt/data/rows.h"
#include "smelt/model/decoder.h"
#include "smelt/train/checkpoint.h"
#include "smelt/train/optimizer.h"
#include "smelt/train/run_config.h"
#include "smelt/train/step.h"

namespace smelt::train {

struct StepRecord {
  StepLosses losses;
  UpdateResult update;
  double lr = 0;
  double attended = 0;  // positions that a token of this rank's rows attends to, on average
  double seconds = 0;   // of the whole step
  double data_seconds = 0;
  double optimizer_seconds = 0;
};

class Stepper {
 public:
  /// The decoder's tensors are trained in place.  Each rank takes its share of a step's rows.
  Stepper(const RunConfig& config, model::Decoder decoder, Moments moments, data::RowStream rows,
          Collectives& ranks = single_process());

  /// Does step state.step + 1 and brings `state` up to date.  Returns nothing when `stop` said so
  /// before the update, on any rank: then neither weights, moments nor state have changed.
  std::optional<StepRecord> advance(TrainState& state, const std::function<bool()>& stop = {});

  const model::Decoder& decoder() const { return decoder_; }
  /// Whole; with several ranks all must call it.
  Moments moments() const { return optimizer_.moments(); }

 private:
  std::int64_t own_micro_rows() const;
  std::vector<model::Batch> read_batches(std::uint64_t first_row, std::string& fingerprint);

  RunConfig config_;
  model::Decoder decoder_;
  data::RowStream rows_;
  Collectives* ranks_;
  AdamW optimizer_;
};

}  // namespace smelt::train
