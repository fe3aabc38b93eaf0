#include "smelt/infer/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "smelt/core/error.h"

namespace smelt::infer {

KvCache::KvCache(const arch::ModelConfig& config, std::int64_t capacity) : config_(config) {
  const auto slots = static_cast<std::size_t>(config.executed_layers());
  const std::vector<std::int64_t> shape = {0, config.num_key_value_heads, config.head_dim};
  keys_.assign(slots, at::Tensor());
  values_.assign(slots, at::Tensor());
  for (std::size_t s = 0; s < slots; ++s) {
    keys_[s] = at::empty(shape);
    values_[s] = at::empty(shape);
  }
  pending_.assign(slots, 0);
  reserve(std::max<std::int64_t>(capacity, 1));
}

std::int64_t KvCache::elements_per_token() const {
  return 2 * config_.key_value_width() * static_cast<std::int64_t>(slots());
}

std::int64_t KvCache::elements() const {
  std::int64_t count = 0;
  for (std::size_t s = 0; s < slots(); ++s) count += keys_[s].numel() + values_[s].numel();
  return count;
}

void KvCache::reserve(std::int64_t n) {
  if (length_ + n <= capacity_) return;
  const std::int64_t capacity = std::max(length_ + n, 2 * capacity_);
  const auto grown = [&](at::Tensor& slot) {
    at::Tensor larger = at::empty({capacity, slot.size(1), slot.size(2)}, slot.options());
    if (length_ > 0) larger.narrow(0, 0, length_).copy_(slot.narrow(0, 0, length_));
    slot = larger;
  };
  for (std::size_t s = 0; s < slots(); ++s) {
    grown(keys_[s]);
    grown(values_[s]);
  }
  capacity_ = capacity;
  tables_ = model::make_rotary(config_, at::arange(capacity, at::kLong));
}

std::pair<at::Tensor, at::Tensor> KvCache::append(std::size_t slot, const at::Tensor& k,
                                                  const at::Tensor& v) {
  const std::int64_t n = k.size(0);
  if (length_ + n > capacity_) {
    throw Error("infer", fmt::format("KV cache: {} tokens do not fit behind {} of {}", n, length_,
                                     capacity_));
  }
  keys_[slot].narrow(0, length_, n).copy_(k);
  values_[slot].narrow(0, length_, n).copy_(v);
  pending_[slot] = n;
  return {keys_[slot].narrow(0, 0, length_ + n), values_[slot].narrow(0, 0, length_ + n)};
}

void KvCache::commit(std::int64_t n) {
  for (std::size_t s = 0; s < slots(); ++s) {
    if (pending_[s] == n) continue;
    throw Error("infer",
                fmt::format("KV cache: slot {} got {} tokens, the pass {}", s, pending_[s], n));
  }
  std::fill(pending_.begin(), pending_.end(), 0);
  length_ += n;
}

void KvCache::truncate(std::int64_t n) {
  length_ = std::clamp<std::int64_t>(n, 0, length_);
}

model::Rotary KvCache::rotary(std::int64_t n) const {
  return model::at_positions(tables_, at::arange(length_, length_ + n, at::kLong));
}

at::Tensor forward_cached(const model::Decoder& decoder, KvCache& cache,
                          std::span<const std::int32_t> tokens) {
  if (tokens.empty()) throw Error("infer", "no token to run");
  for (const std::int32_t id : tokens) {
    if (id >= 0 && id < decoder.config.vocab_size) continue;
    throw Error("infer", fmt::format("token id {} is outside the vocabulary of {}", id,
                                     decoder.config.vocab_size));
  }
  const torch::NoGradGuard no_grad;
  const auto n = static_cast<std::int64_t>(tokens.size());
  cache.reserve(n);
  const model::Rotary rotary = cache.rotary(n);
  const at::Tensor ids =
      at::from_blob(const_cast<std::int32_t*>(tokens.data()), {n}, at::kInt).to(at::kLong);
  at::Tensor x = model::embed_tokens(decoder, ids);
  for (std::size_t e = 0; e < decoder.executed_layers(); ++e) {
    const model::Attend attend = [&](const at::Tensor& q, const at::Tensor& k,
                                     const at::Tensor& v) {
      const auto [keys, values] = cache.append(e, k, v);
      return model::cached_attention(q, keys, values);
    };
    x = model::forward_layer(decoder, e, x, rotary, attend).x;
  }
  cache.commit(n);
  return model::final_norm(decoder, x);
}

}  // namespace smelt::infer
