// How fast a run goes, in the units people compare: FLOP/s, their share of the machine's peak,
// memory.
#pragma once

#include "smelt/train/run_config.h"

namespace smelt::train {

/// Training FLOPs per token at a mean attended length: F of the budgets and the LM head.
double flops_per_token(const arch::ModelConfig& model, double attended);

/// FLOP/s of this process's threads in large matrix products of `precision`: the most that any
/// product of a step reaches.  Takes some tens of milliseconds.
double measured_peak_flops(arch::Precision precision);

/// The largest amount of memory this process has had, bytes.
double peak_rss_bytes();

}  // namespace smelt::train
