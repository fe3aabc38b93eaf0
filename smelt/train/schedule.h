// Learning rates as a pure function of the step: nothing to save.
//
//   steps 1 … warmup             lr · step / warmup
//   then, by schedule
//     wsd (paper section 4)      lr; the last `decay_steps` from the rate reached at their fork
//     down
//                                to min_lr_ratio of it, as cosine, linear or 1 - sqrt
//     cosine                     from lr at the warmup's end to min_lr_ratio of it at the last step
//     constant                   lr
//
// A decay branch of a run is the same run with the tail put behind its fork: the branch's first
// step still has the parent's rate, its last one the floor.
#pragma once

#include <cstdint>

#include "smelt/train/run_config.h"

namespace smelt::train {

/// Learning rate of step 1 … options.steps.
double learning_rate(const TrainOptions& options, std::int64_t step);

}  // namespace smelt::train
