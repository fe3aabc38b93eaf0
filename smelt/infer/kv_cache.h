// Keys and values of one sequence, a slot per executed layer.
//
// A looped model computes new keys and values on every visit, so a layer of the span has one slot
// per visit: 2 · kv_width · L_eff elements per token.  All slots share one cursor, which moves once
// per forward pass, after the last layer; positions therefore never run ahead within a pass.
//
//   KvCache cache(decoder.config, 512);
//   at::Tensor hidden = forward_cached(decoder, cache, prompt);   // prefill
//   hidden = forward_cached(decoder, cache, next_token);          // decode
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "smelt/model/decoder.h"

namespace smelt::infer {

class KvCache {
 public:
  /// Room for `capacity` tokens at first; it doubles when it is full.
  KvCache(const arch::ModelConfig& config, std::int64_t capacity);

  /// Tokens whose forward pass is complete.
  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  std::size_t slots() const { return keys_.size(); }
  /// Elements that one token occupies, and all allocated elements.
  std::int64_t elements_per_token() const;
  std::int64_t elements() const;

  /// Makes room for n more tokens; committed ones stay.
  void reserve(std::int64_t n);
  /// Puts k, v [n, kv_heads, D] behind the committed tokens of `slot`, without moving the cursor;
  /// returns the slot's keys and values up to them, [length + n, kv_heads, D].  Needs room
  /// (reserve).
  std::pair<at::Tensor, at::Tensor> append(std::size_t slot, const at::Tensor& k,
                                           const at::Tensor& v);
  /// The pass over n tokens is complete.  Throws Error when a slot did not get them.
  void commit(std::int64_t n);
  /// Forgets everything but the first n tokens.
  void truncate(std::int64_t n);
  /// Angles of the next n positions.
  model::Rotary rotary(std::int64_t n) const;

 private:
  std::int64_t capacity_ = 0;
  std::int64_t length_ = 0;
  arch::ModelConfig config_;
  std::vector<at::Tensor> keys_;       // per slot [capacity, kv_heads, D]
  std::vector<at::Tensor> values_;     // likewise
  std::vector<std::int64_t> pending_;  // per slot: tokens appended, not committed
  model::Rotary tables_;
};

/// Runs the next tokens of the sequence through the decoder -> hidden [n, H] after the final norm.
/// No gradient. Throws Error for an empty list or an id outside the vocabulary; the cache is
/// unchanged then.
at::Tensor forward_cached(const model::Decoder& decoder, KvCache& cache,
                          std::span<const std::int32_t> tokens);

}  // namespace smelt::infer
