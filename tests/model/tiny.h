// Small models and batches for tests, and the decoder written the plain way: one document at a
// time, dense masks, a loop over experts, nothing but LibTorch's own differentiable operations.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "smelt/core/philox.h"
#include "smelt/model/loss.h"
#include "smelt/model/weights.h"

namespace smelt::model {

inline arch::ModelConfig tiny_config() {
  arch::ModelConfig c;
  c.vocab_size = 23;
  c.hidden_size = 20;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 6;
  c.moe_intermediate_size = 7;
  c.num_experts = 5;
  c.num_experts_per_tok = 2;
  c.norm_topk_prob = true;
  c.loop = arch::Loop{2, 2, 2, 0.5};
  return c;
}

/// Weights large enough that every part matters.
inline Decoder tiny_decoder(const arch::ModelConfig& config, std::uint64_t seed = 1,
                            double factor = 8) {
  Decoder decoder = init_decoder(config, seed);
  for (const auto& [name, tensor] : named_parameters(decoder)) {
    if (tensor.dim() > 1) {
      tensor.mul_(factor);
    } else {
      const Philox random(seed, "test/" + name);
      for (std::int64_t i = 0; i < tensor.numel(); ++i) {
        tensor[i] = 1 + 0.2 * random.normal(static_cast<std::uint64_t>(i));
      }
    }
  }
  return decoder;
}

inline void require_gradients(const Decoder& decoder) {
  for (const auto& [name, tensor] : named_parameters(decoder)) tensor.requires_grad_(true);
}

/// Random tokens in documents of these lengths, one row.
inline Batch random_batch(const std::vector<std::int64_t>& lengths, std::int64_t vocab,
                          std::uint64_t seed = 1) {
  const Philox random(seed, "test/tokens");
  std::vector<std::int64_t> tokens, segments;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    for (std::int64_t i = 0; i < lengths[d]; ++i) {
      tokens.push_back(static_cast<std::int64_t>(
          random.below(tokens.size(), static_cast<std::uint64_t>(vocab))));
      segments.push_back(static_cast<std::int64_t>(d % 2));
    }
  }
  return make_batch(tokens, segments, 1, static_cast<std::int64_t>(tokens.size()), vocab);
}

namespace plain {

inline at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return weight * (x * (x.square().mean(-1, true) + eps).rsqrt());
}

inline at::Tensor rotate(const at::Tensor& x, double theta) {  // [n, heads, D], positions 0 … n-1
  const std::int64_t n = x.size(0), dim = x.size(2);
  const at::Tensor frequency =
      at::pow(theta, at::arange(0, dim / 2, at::kDouble) * (-2.0 / static_cast<double>(dim)));
  const at::Tensor angle =
      (at::arange(0, n, at::kDouble).unsqueeze(1) * frequency).unsqueeze(1).to(x.scalar_type());
  const at::Tensor a = x.narrow(2, 0, dim / 2), b = x.narrow(2, dim / 2, dim / 2);
  return at::cat({a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()}, 2);
}

inline at::Tensor moe(const at::Tensor& y, const LayerWeights& w, const arch::ModelConfig& c) {
  const at::Tensor p = at::linear(y, w.gate).softmax(1);
  // A stable descending sort leaves equal probabilities in index order.
  const at::Tensor chosen =
      std::get<1>(at::sort(p.detach(), /*stable=*/true, 1, /*descending=*/true))
          .narrow(1, 0, c.num_experts_per_tok);
  at::Tensor weights = p.gather(1, chosen);
  if (c.norm_topk_prob) weights = weights / weights.sum(1, true);
  at::Tensor out = at::zeros_like(y);
  for (std::int64_t e = 0; e < c.num_experts; ++e) {
    const at::Tensor share = (weights * (chosen == e)).sum(1, true);
    const auto parts = at::linear(y, w.gate_up[e]).chunk(2, 1);
    out = out + share * at::linear(at::silu(parts[0]) * parts[1], w.down[e]);
  }
  return out;
}

/// tokens of one document -> logits [n, V].
inline at::Tensor document_logits(const Decoder& d, const at::Tensor& tokens) {
  const arch::ModelConfig& c = d.config;
  const std::int64_t n = tokens.size(0), group = c.num_attention_heads / c.num_key_value_heads;
  at::Tensor x = d.embed.index_select(0, tokens);
  const at::Tensor future = at::ones({n, n}, at::kBool).triu(1);
  for (const auto& step : d.schedule) {
    const LayerWeights& w = d.layers[static_cast<std::size_t>(step.layer)];
    const at::Tensor y = norm(x, w.input_norm, c.rms_norm_eps);
    at::Tensor q = at::linear(y, w.q_proj).view({n, c.num_attention_heads, c.head_dim});
    at::Tensor k = at::linear(y, w.k_proj).view({n, c.num_key_value_heads, c.head_dim});
    const at::Tensor v = at::linear(y, w.v_proj).view({n, c.num_key_value_heads, c.head_dim});
    if (c.qk_norm) {
      q = norm(q, w.q_norm, c.rms_norm_eps);
      k = norm(k, w.k_norm, c.rms_norm_eps);
    }
    q = rotate(q, c.rope_theta).transpose(0, 1);
    k = rotate(k, c.rope_theta).repeat_interleave(group, 1).transpose(0, 1);
    const at::Tensor scores =
        at::matmul(q, k.transpose(1, 2)) / std::sqrt(static_cast<double>(c.head_dim));
    const at::Tensor map = scores.masked_fill(future, -INFINITY).softmax(-1);
    const at::Tensor pv =
        at::matmul(map, v.repeat_interleave(group, 1).transpose(0, 1)).transpose(0, 1);
    x = x + step.residual_scale * at::linear(pv.reshape({n, -1}), w.o_proj);
    x = x + step.residual_scale * moe(norm(x, w.post_attention_norm, c.rms_norm_eps), w, c);
  }
  return at::linear(norm(x, d.final_norm, c.rms_norm_eps), d.head);
}

/// Sum of the NLL of every target of a batch, document by document.
inline at::Tensor total_nll(const Decoder& d, const Batch& batch) {
  at::Tensor total = at::zeros({}, d.embed.options());
  for (const Piece& piece : batch.pieces) {
    const at::Tensor tokens = batch.tokens.narrow(0, piece.begin, piece.length);
    if (piece.length == 1) continue;
    const at::Tensor log_p =
        document_logits(d, tokens).narrow(0, 0, piece.length - 1).log_softmax(1);
    total = total - log_p.gather(1, tokens.narrow(0, 1, piece.length - 1).unsqueeze(1)).sum();
  }
  return total;
}

}  // namespace plain

inline std::vector<at::Tensor> gradients(const Decoder& decoder, const at::Tensor& scalar) {
  std::vector<at::Tensor> inputs;
  for (const auto& [name, tensor] : named_parameters(decoder)) inputs.push_back(tensor);
  auto grads = torch::autograd::grad({scalar}, inputs, {}, true, false, true);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) grads[i] = at::zeros_like(inputs[i]);
  }
  return grads;
}

/// A folder that is gone with the test.
struct TempFolder {
  std::filesystem::path path;
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "smelt-model-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path); }
};

}  // namespace smelt::model
