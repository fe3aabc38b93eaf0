// Checkpoints: folders step-00000123 that are either whole or not there.
//
//   config.json  model.safetensors  optimizer.safetensors  tokenizer.model  state.json
//
// Written into a folder aside, every file synced, state.json (sizes and hashes of the others) last;
// then the folder is renamed and its parent synced.  Reading checks size and hash first: one
// flipped byte is an Error naming the file.
//
//   Checkpoint checkpoint = read_checkpoint(find_latest("runs/a"));
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "smelt/core/json.h"
#include "smelt/core/progress.h"
#include "smelt/model/decoder.h"
#include "smelt/train/optimizer.h"

namespace smelt::train {

/// Everything beside tensors that the next step depends on, and what a reader wants to know.
struct TrainState {
  std::int64_t step = 0;          // last completed
  std::int64_t tokens = 0;        // trained on, the parent's included
  std::uint64_t next_row = 0;     // data cursor: row of the order that the next step begins with
  std::string order_fingerprint;  // names store, pool, seed, row length
  std::string data_fingerprint;   // of every token and segment id this run has read, in order
  std::int64_t optimizer_updates = 0;  // AdamW's own step count: skipped steps do not advance it
  std::int64_t skipped_steps = 0;
  std::int64_t skipped_in_a_row = 0;
  double last_loss = 0;
  double loss_mean = 0;    // running, of the finite losses: what a spike is told by
  double loss_square = 0;  // running mean of their squares
  double seconds = 0;      // spent in steps so far
  Json identity;           // run_config.h
  Json versions;           // of the programs that wrote it
};

struct Checkpoint {
  std::filesystem::path folder;
  TrainState state;
  model::Decoder decoder;
  Moments moments;
};

/// Name of a step's folder: "step-00001234".
std::string checkpoint_name(std::int64_t step);

/// Steps of the checkpoint folders of a run, ascending; whole or not.
std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& run_folder);

/// Of this program and its LibTorch: other ones may give other bits.
Json program_versions();

/// Writes RUN/checkpoints/step-…; returns its path.  On failure (no space, …) nothing of it stays,
/// the older checkpoints are untouched and Error is thrown.  `tokenizer_model` is the content of
/// tokenizer.model.
std::filesystem::path write_checkpoint(const std::filesystem::path& run_folder,
                                       const TrainState& state, const model::Decoder& decoder,
                                       const Moments& moments, const std::string& tokenizer_model);

/// Checks every file that state.json lists.  Throws one Error naming each file that is missing, cut
/// short or changed.
TrainState verify_checkpoint(const std::filesystem::path& checkpoint);

/// Verifies and loads.
Checkpoint read_checkpoint(const std::filesystem::path& checkpoint);

/// The newest checkpoint, verified; throws Error when it is damaged or there is none.
std::filesystem::path find_latest(const std::filesystem::path& run_folder);
/// The newest sound one; each damaged one is reported to `log`.  Empty when there is none.
std::filesystem::path find_latest_sound(const std::filesystem::path& run_folder,
                                        const LogSink& log);

/// What a verb that wants a model is given: a checkpoint or weights-only folder, or a run folder
/// (its newest checkpoint).  Verified where there is a state.json.
std::filesystem::path find_model(const std::filesystem::path& path);

/// Deletes all but the newest `keep_last`, those at `keep_steps` and at multiples of `keep_every`.
void prune_checkpoints(const std::filesystem::path& run_folder, std::int64_t keep_last,
                       const std::vector<std::int64_t>& keep_steps, std::int64_t keep_every = 0);

/// Removes what killed writers left behind.  Only for the one process that trains in the folder.
void remove_partial_checkpoints(const std::filesystem::path& run_folder);

}  // namespace smelt::train
