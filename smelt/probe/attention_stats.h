// Attention maps in blocks of queries, and what is summed from them.  A map never exists for more
// than one block.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>

#include "smelt/model/batch.h"
#include "smelt/probe/probe.h"

namespace smelt::probe {

/// Queries and keys of one executed layer on a whole batch, after q/k norm and RoPE.
struct QueryKey {
  at::Tensor q;  // [N, heads, D]
  at::Tensor k;  // [N, kv_heads, D]
};

/// Adds the mass on the piece's first token, per head: queries with position >= 1, and all queries.
/// With `control`, the overlap of head h with head (h + heads / 2) mod heads too.
void add_attention(const QueryKey& layer, const model::Piece& piece, std::int64_t document,
                   Heads& sink, Heads& sink_including_first, Attended* control);

/// Adds the overlap of two layers' maps, head by head.
void add_attended(const QueryKey& a, const QueryKey& b, const model::Piece& piece,
                  std::int64_t document, Attended& attended);

}  // namespace smelt::probe
