// The decoder of the paper, section 2: pre-norm, grouped-query attention under a segment mask,
// every feed-forward a sparse MoE; a span of layers runs `visits` times with scaled writes.
//
//   x ← x + s · O(Attention(RMSNorm(x)));   x ← x + s · MoE(RMSNorm(x))      s = residual_scale of
//   the layer
//
// Weights are plain fp32 tensors that belong to physical layers; everything else is per executed
// layer, in the order of arch::LoopSchedule.  With one visit every number is that of the Baseline,
// to the bit.
//
//   Decoder decoder = load_decoder("checkpoint");
//   Forward out = forward(decoder, batch);                            // hidden [N, H], routing
//   at::Tensor loss = sum_nll(decoder, out.hidden, batch.targets);    // loss.h
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "smelt/arch/loop_schedule.h"
#include "smelt/arch/model_config.h"
#include "smelt/model/attention.h"
#include "smelt/model/batch.h"
#include "smelt/model/products.h"

namespace smelt::model {

/// Weights of one physical layer; q = heads · head_dim, kv = kv_heads · head_dim.
struct LayerWeights {
  at::Tensor input_norm;           // [H]
  at::Tensor q_proj;               // [q, H]
  at::Tensor k_proj;               // [kv, H]
  at::Tensor v_proj;               // [kv, H]
  at::Tensor o_proj;               // [H, q]
  at::Tensor q_norm;               // [head_dim]; undefined without qk_norm
  at::Tensor k_norm;               // [head_dim]; undefined without qk_norm
  at::Tensor post_attention_norm;  // [H]
  at::Tensor gate;                 // [E, H], the router
  at::Tensor gate_bias;            // [visits, E], of the choice only; undefined = none
  at::Tensor gate_up;              // [E, 2I, H], rows 0 … I-1 gate, I … 2I-1 up
  at::Tensor down;                 // [E, H, I]
};

struct Decoder {
  arch::ModelConfig config;
  arch::LoopSchedule schedule;  // make_schedule(config)
  at::Tensor embed;             // [V, H]
  std::vector<LayerWeights> layers;
  at::Tensor final_norm;  // [H]
  at::Tensor head;        // [V, H]; the same tensor as `embed` when tied
  /// Of the products' factors; the router's are fp32 always.
  Precision precision = Precision::kFp32;
  /// In a forward pass with gradient: what backward computes again.  Routers' choices are kept.
  arch::Recompute recompute = arch::Recompute::kNone;

  std::size_t executed_layers() const { return schedule.size(); }
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Every parameter once, under its Hugging Face name, in file order (embedding, layers, norm,
/// head).  The tensors share storage with the decoder: set requires_grad on them to train.
NamedTensors named_parameters(const Decoder& decoder);

/// Name of the bias of a physical layer's router, and how often that layer runs.
std::string bias_name(std::size_t layer);
std::int64_t visits_of(const arch::LoopSchedule& schedule, std::size_t layer);

/// The parameters, and behind them what is part of the model without being trained: the routers'
/// biases, where it has them ("mlp.gate.e_score_correction_bias", [E], or [visits, E] in a looped
/// layer).
NamedTensors named_state(const Decoder& decoder);

/// Gives every router biases of 0 for each of its visits; those that are there stay.
void add_router_biases(Decoder& decoder);

/// Name and shape of every parameter of a geometry, in the same order.
std::vector<std::pair<std::string, std::vector<std::int64_t>>> parameter_shapes(
    const arch::ModelConfig& config);

/// What the router of one executed layer did.
struct Routing {
  at::Tensor probabilities;  // [N, E], softmax over all experts; carries gradient
  at::Tensor experts;        // [N, k] int64, in the order of choice, ties to the lower index
  at::Tensor logsumexp;      // [N], of the router logits; carries gradient (z-loss)
};

struct Forward {
  at::Tensor hidden;             // [N, H], after the final norm
  std::vector<Routing> routing;  // per executed layer
};

/// Every intermediate of one executed layer.  Views of live tensors: copy what is kept.
struct LayerTrace {
  std::size_t executed = 0;     // index into the schedule
  arch::ExecutedLayer layer;    // physical layer, visit, residual scale
  at::Tensor x_in;              // [N, H] the stream before the layer
  at::Tensor attention_input;   // [N, H] "X": first RMSNorm
  at::Tensor q;                 // [N, heads, head_dim] after q-norm and RoPE
  at::Tensor k;                 // [N, kv_heads, head_dim] after k-norm and RoPE
  at::Tensor v;                 // [N, kv_heads, head_dim]
  at::Tensor pv;                // [N, heads, head_dim] attention output before o_proj
  at::Tensor attention_output;  // [N, H] "O": after o_proj, before the residual scale
  at::Tensor x_mid;             // [N, H] x_in + scale · O
  at::Tensor moe_input;         // [N, H] "Y": second RMSNorm
  at::Tensor moe_output;        // [N, H] "M": before the residual scale
  at::Tensor x_out;             // [N, H] x_mid + scale · M
  Routing routing;
};

/// Looks into a forward pass, and may silence heads.  Nothing is kept or computed for it when
/// empty.
struct Observer {
  std::function<void(const LayerTrace&)> layer;  // called after each executed layer
  /// Per executed layer a factor per head on `pv` ([heads] fp32; undefined = untouched): zero
  /// switches a head off.  Empty = no layer is touched; else one entry per executed layer.
  std::vector<at::Tensor> head_factor;
};

/// The whole decoder on a batch.  Under torch::NoGradGuard nothing is kept for a backward pass.
Forward forward(const Decoder& decoder, const Batch& batch, const Observer& observer = {});

// ---- the parts, for callers with a cache of their own (generation)

/// Maps q [n, heads, D], k and v [n, kv_heads, D] of the tokens at hand to the attention output [n,
/// heads, D]. A KV cache appends k and v to the slot of this executed layer and calls
/// cached_attention (attention.h).
using Attend =
    std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;

struct LayerOutput {
  at::Tensor x;  // [n, H]
  Routing routing;
};

/// Embedding rows of tokens [n] int64 -> [n, H].
at::Tensor embed_tokens(const Decoder& decoder, const at::Tensor& tokens);

/// Executed layer number `executed` on the stream x [n, H]; `rotary` holds the tokens' angles
/// (attention.h).  `experts` [n, k] are the router's choices of an earlier pass over the same
/// stream, taken instead of chosen anew.
LayerOutput forward_layer(const Decoder& decoder, std::size_t executed, const at::Tensor& x,
                          const Rotary& rotary, const Attend& attend, const Observer& observer = {},
                          const at::Tensor& experts = {});

/// The final norm, [n, H] -> [n, H].
at::Tensor final_norm(const Decoder& decoder, const at::Tensor& x);

/// hidden [n, H] (after the final norm) -> logits [n, V], without gradient (token_nll has it).
at::Tensor logits(const Decoder& decoder, const at::Tensor& hidden);

}  // namespace smelt::model
