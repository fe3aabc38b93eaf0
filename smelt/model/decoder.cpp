#include "smelt/model/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "smelt/core/error.h"
#include "smelt/model/kernels.h"
#include "smelt/model/moe.h"
#include "smelt/model/projection.h"
#include "smelt/model/recompute.h"

namespace smelt::model {
namespace {

/// Calls `visit(name, tensor)` for each parameter in file order; the head only when it is a tensor
/// of its own.
template <class Layers, class Tensor, class Visit>
void visit_parameters(const arch::ModelConfig& config, Tensor& embed, Layers& layers,
                      Tensor& final_norm, Tensor& head, const Visit& visit) {
  visit("model.embed_tokens.weight", embed);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    auto& w = layers[i];
    visit(layer + "input_layernorm.weight", w.input_norm);
    visit(layer + "self_attn.q_proj.weight", w.q_proj);
    visit(layer + "self_attn.k_proj.weight", w.k_proj);
    visit(layer + "self_attn.v_proj.weight", w.v_proj);
    visit(layer + "self_attn.o_proj.weight", w.o_proj);
    if (config.qk_norm) {
      visit(layer + "self_attn.q_norm.weight", w.q_norm);
      visit(layer + "self_attn.k_norm.weight", w.k_norm);
    }
    visit(layer + "post_attention_layernorm.weight", w.post_attention_norm);
    visit(layer + "mlp.gate.weight", w.gate);
    visit(layer + "mlp.experts.gate_up_proj", w.gate_up);
    visit(layer + "mlp.experts.down_proj", w.down);
  }
  visit("model.norm.weight", final_norm);
  if (!config.tie_word_embeddings) visit("lm_head.weight", head);
}

struct LayerShapes {
  std::vector<std::int64_t> input_norm, q_proj, k_proj, v_proj, o_proj, q_norm, k_norm,
      post_attention_norm, gate, gate_up, down;
};

}  // namespace

NamedTensors named_parameters(const Decoder& decoder) {
  NamedTensors named;
  visit_parameters(decoder.config, decoder.embed, decoder.layers, decoder.final_norm, decoder.head,
                   [&](std::string name, const at::Tensor& tensor) {
                     named.emplace_back(std::move(name), tensor);
                   });
  return named;
}

std::string bias_name(std::size_t layer) {
  return fmt::format("model.layers.{}.mlp.gate.e_score_correction_bias", layer);
}

std::int64_t visits_of(const arch::LoopSchedule& schedule, std::size_t layer) {
  return std::count_if(schedule.begin(), schedule.end(), [layer](const arch::ExecutedLayer& one) {
    return one.layer == static_cast<std::int64_t>(layer);
  });
}

NamedTensors named_state(const Decoder& decoder) {
  NamedTensors named = named_parameters(decoder);
  for (std::size_t i = 0; i < decoder.layers.size(); ++i) {
    const at::Tensor& bias = decoder.layers[i].gate_bias;
    if (bias.defined()) named.emplace_back(bias_name(i), bias.size(0) == 1 ? bias[0] : bias);
  }
  return named;
}

void add_router_biases(Decoder& decoder) {
  for (std::size_t i = 0; i < decoder.layers.size(); ++i) {
    at::Tensor& bias = decoder.layers[i].gate_bias;
    const std::int64_t visits = visits_of(decoder.schedule, i);
    if (!bias.defined()) bias = at::zeros({visits, decoder.config.num_experts}, at::kFloat);
  }
}

std::vector<std::pair<std::string, std::vector<std::int64_t>>> parameter_shapes(
    const arch::ModelConfig& c) {
  const std::int64_t hidden = c.hidden_size, q = c.query_width(), kv = c.key_value_width();
  const LayerShapes shapes = {.input_norm = {hidden},
                              .q_proj = {q, hidden},
                              .k_proj = {kv, hidden},
                              .v_proj = {kv, hidden},
                              .o_proj = {hidden, q},
                              .q_norm = {c.head_dim},
                              .k_norm = {c.head_dim},
                              .post_attention_norm = {hidden},
                              .gate = {c.num_experts, hidden},
                              .gate_up = {c.num_experts, 2 * c.moe_intermediate_size, hidden},
                              .down = {c.num_experts, hidden, c.moe_intermediate_size}};
  const std::vector<LayerShapes> layers(static_cast<std::size_t>(c.num_hidden_layers), shapes);
  const std::vector<std::int64_t> table = {c.vocab_size, hidden}, norm = {hidden};
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> named;
  visit_parameters(c, table, layers, norm, table,
                   [&](std::string name, const std::vector<std::int64_t>& shape) {
                     named.emplace_back(std::move(name), shape);
                   });
  return named;
}

at::Tensor embed_tokens(const Decoder& decoder, const at::Tensor& tokens) {
  return at::embedding(decoder.embed, tokens);
}

LayerOutput forward_layer(const Decoder& decoder, std::size_t executed, const at::Tensor& x,
                          const Rotary& rotary, const Attend& attend, const Observer& observer,
                          const at::Tensor& experts) {
  const arch::ExecutedLayer& step = decoder.schedule[executed];
  const LayerWeights& w = decoder.layers[static_cast<std::size_t>(step.layer)];
  const arch::ModelConfig& c = decoder.config;
  const std::int64_t n = x.size(0);

  const at::Tensor attention_input = rms_norm(x, w.input_norm, c.rms_norm_eps);
  const auto [q, k, v] = project_qkv(attention_input, w, rotary, c.rms_norm_eps, decoder.precision);
  at::Tensor pv = attend(q, k, v);  // [n, heads, D]
  if (executed < observer.head_factor.size() && observer.head_factor[executed].defined()) {
    pv = pv * observer.head_factor[executed].view({1, -1, 1});
  }
  const at::Tensor flat = pv.reshape({n, c.query_width()});
  const at::Tensor x_mid = project_onto(x, flat, w.o_proj, step.residual_scale, decoder.precision);
  const at::Tensor moe_input = rms_norm(x_mid, w.post_attention_norm, c.rms_norm_eps);
  const float* bias = w.gate_bias.defined()
                          ? w.gate_bias.const_data_ptr<float>() + (step.visit - 1) * c.num_experts
                          : nullptr;
  const Routed routed =
      route(moe_input, w.gate, c.num_experts_per_tok, c.norm_topk_prob,
            fmt::format("layer {}, visit {}", step.layer + 1, step.visit), bias, experts);
  at::Tensor moe_output;
  const at::Tensor x_out =
      add_experts(x_mid, moe_input, routed, w.gate_up, w.down, step.residual_scale,
                  decoder.precision, observer.layer ? &moe_output : nullptr);
  LayerOutput out{x_out, {routed.probabilities, routed.experts, routed.logsumexp}};
  if (observer.layer) {
    const at::NoGradGuard no_grad;
    observer.layer({executed, step, x, attention_input, q, k, v, pv,
                    project(flat, w.o_proj, decoder.precision), x_mid, moe_input, moe_output, x_out,
                    out.routing});
  }
  return out;
}

at::Tensor final_norm(const Decoder& decoder, const at::Tensor& x) {
  return rms_norm(x, decoder.final_norm, decoder.config.rms_norm_eps);
}

at::Tensor logits(const Decoder& decoder, const at::Tensor& hidden) {
  const at::NoGradGuard no_grad;
  return project(hidden, decoder.head, decoder.precision);
}

Forward forward(const Decoder& decoder, const Batch& batch, const Observer& observer) {
  if (!observer.head_factor.empty() && observer.head_factor.size() != decoder.executed_layers()) {
    throw Error("model", fmt::format("head factors for {} executed layers, got {}",
                                     decoder.executed_layers(), observer.head_factor.size()));
  }
  const Rotary rotary = make_rotary(decoder.config, batch.positions);
  const Attend attend = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    return attention(q, k, v, batch.pieces);
  };
  Forward out;
  at::Tensor x = embed_tokens(decoder, batch.tokens);
  const bool keeps_all = !at::GradMode::is_enabled() || observer.layer;
  for (std::size_t e = 0; e < decoder.executed_layers();) {
    const std::size_t end = keeps_all ? e : recomputed_until(decoder, e);
    if (end > e) {
      x = forward_recomputed(decoder, e, end, x, rotary, batch.pieces, out.routing);
      e = end;
      continue;
    }
    LayerOutput layer = forward_layer(decoder, e, x, rotary, attend, observer);
    x = std::move(layer.x);
    out.routing.push_back(std::move(layer.routing));
    ++e;
  }
  out.hidden = final_norm(decoder, x);
  return out;
}

}  // namespace smelt::model
