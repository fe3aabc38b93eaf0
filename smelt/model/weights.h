// Weights on disk (safetensors, Hugging Face names) and fresh ones.
//
// A weights-only model is a folder with `config.json` and `model.safetensors`; shared weights are
// stored once.  A safetensors file is an 8-byte little-endian header length, a JSON header, and the
// tensors' bytes.  Every offset is checked against shape, dtype, file size and its neighbours
// before anything is read.
//
//   Decoder decoder = load_decoder("runs/a/checkpoints/step-00000500");
//   Decoder fresh = init_decoder(config, seed);
//   save_decoder(fresh, "model");
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "smelt/model/decoder.h"

namespace smelt::model {

/// Reads config.json and model.safetensors.  Throws one Error that lists every missing, unexpected
/// and wrongly shaped tensor.  F32, F16 and BF16 files are read into fp32.  The tensors do not
/// require gradients.
Decoder load_decoder(const std::filesystem::path& folder);

/// Writes config.json and model.safetensors into an existing folder, each one aside, synced and
/// renamed.
void save_decoder(const Decoder& decoder, const std::filesystem::path& folder);

/// sqrt(2 / (5 · hidden_size)): 0.02 at hidden size 1000, larger for narrow models, which at a
/// fixed 0.02 linger on a plateau (Nguyen & Salazar, 1910.05895).
double small_init_std(const arch::ModelConfig& config);

/// Philox keyed by (seed, tensor name): independent of order, threads and geometry elsewhere.
/// Normal with standard deviation `init_std` (0: small_init_std); o_proj and down_proj with
/// init_std / sqrt(2 · executed layers), so that the stream's variance does not grow with depth;
/// norms are 1.  A pair's tensors of the same name and shape are the same draws, equal up to these
/// factors.
Decoder init_decoder(const arch::ModelConfig& config, std::uint64_t seed, double init_std = 0);

/// A decoder over given tensors (names and shapes as parameter_shapes); `where` names them in
/// errors.
Decoder decoder_from_tensors(const arch::ModelConfig& config, const NamedTensors& tensors,
                             const std::string& where);

/// Independent copies of all parameters (a tied head stays tied).
Decoder clone(const Decoder& decoder);

// ---- safetensors

/// All tensors of a file, in file order; dtypes F64, F32, F16, BF16, I64, I32, U8 as stored.  A
/// truncated, overlapping, oversized or unreadable file throws Error with file and tensor.
NamedTensors read_safetensors(const std::filesystem::path& file);

/// Streams the tensors to a file aside, syncs, renames.  Names must differ; `metadata` goes into
/// the header's
/// "__metadata__".  The file's size is header + Σ nbytes.  On any failure the old file stays and
/// Error is thrown.
void write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace smelt::model
