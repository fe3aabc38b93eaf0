#include "smelt/budget/budget.h"

namespace smelt::budget {
namespace {

/// Weights of one physical layer, as doubles: exact to 2^53.
struct LayerWeights {
  double query, key_value, output, router, expert, norms, qk_norms;
};

LayerWeights layer_weights(const arch::ModelConfig& model) {
  const auto h = static_cast<double>(model.hidden_size);
  const auto q = static_cast<double>(model.query_width());
  const auto kv = static_cast<double>(model.key_value_width());
  return {.query = h * q,
          .key_value = 2 * h * kv,
          .output = q * h,
          .router = h * static_cast<double>(model.num_experts),
          .expert = 3 * h * static_cast<double>(model.moe_intermediate_size),
          .norms = 2 * h,
          .qk_norms = model.qk_norm ? 2 * static_cast<double>(model.head_dim) : 0};
}

double sum(const std::vector<Term>& terms) {
  double total = 0;
  for (const Term& term : terms) total += term.count;
  return total;
}

Json to_json(const std::vector<Term>& terms) {
  Json json = Json::array();
  for (const Term& term : terms) json.push_back({{"name", term.name}, {"count", term.count}});
  return json;
}

}  // namespace

Budget count(const arch::ModelConfig& model, double attended, double context) {
  const LayerWeights w = layer_weights(model);
  const auto layers = static_cast<double>(model.num_hidden_layers);
  const auto executed = static_cast<double>(model.executed_layers());
  const auto experts = static_cast<double>(model.num_experts);
  const auto top_k = static_cast<double>(model.num_experts_per_tok);
  const auto embedding = static_cast<double>(model.vocab_size * model.hidden_size);

  Budget b;
  b.attended = attended;
  b.context = context;
  b.executed_layers = model.executed_layers();
  b.parameter_terms = {
      {"attention q", layers * w.query},        {"attention k, v", layers * w.key_value},
      {"attention o", layers * w.output},       {"router", layers * w.router},
      {"experts", layers * w.expert * experts}, {"norms", layers * w.norms}};
  if (model.qk_norm) b.parameter_terms.push_back({"q/k norms", layers * w.qk_norms});
  b.parameters_total = sum(b.parameter_terms);
  b.parameters_active = b.parameters_total - layers * w.expert * (experts - top_k);
  b.parameters_executed =
      executed * (w.query + w.key_value + w.output + w.router + top_k * w.expert);
  b.parameters_embedding =
      embedding * (model.tie_word_embeddings ? 1 : 2) + static_cast<double>(model.hidden_size);

  // q·kᵀ and p·v: 4·q·t̄ FLOPs forward, three times that with the backward pass.
  const double attention = 12 * static_cast<double>(model.query_width()) * executed;
  b.flops_terms = {
      {"attention q", 6 * executed * w.query},  {"attention k, v", 6 * executed * w.key_value},
      {"attention o", 6 * executed * w.output}, {"attention scores", attention * attended},
      {"router", 6 * executed * w.router},      {"experts", 6 * executed * w.expert * top_k}};
  b.flops_per_token = sum(b.flops_terms);
  b.flops_forward = b.flops_per_token / 3;
  b.flops_head = 6 * embedding;
  b.six_n = 6 * b.parameters_active;
  b.full_context = 6 * b.parameters_executed + attention * context;
  b.kv_elements_per_token = 2 * static_cast<double>(model.key_value_width()) * executed;
  return b;
}

double kv_bytes_per_token(const Budget& budget, double element_bytes) {
  return budget.kv_elements_per_token * element_bytes;
}

double sparsity(const Budget& model, const Budget& control) {
  return 1 - model.flops_per_token / control.flops_per_token * control.parameters_total /
                 model.parameters_total;
}

arch::ModelConfig fully_active(arch::ModelConfig model) {
  model.num_experts = model.num_experts_per_tok;
  return model;
}

Mismatch mismatch(const Budget& model, const Budget& baseline) {
  return {.flops = model.flops_per_token / baseline.flops_per_token - 1,
          .parameters = model.parameters_total / baseline.parameters_total - 1,
          .kv_cache = model.kv_elements_per_token / baseline.kv_elements_per_token - 1};
}

Json to_json(const Budget& b) {
  return {{"schema", "smelt.budget/1"},
          {"parameters",
           {{"total", b.parameters_total},
            {"active", b.parameters_active},
            {"executed", b.parameters_executed},
            {"embedding", b.parameters_embedding},
            {"terms", to_json(b.parameter_terms)}}},
          {"flops_per_token",
           {{"training", b.flops_per_token},
            {"forward", b.flops_forward},
            {"head", b.flops_head},
            {"six_n", b.six_n},
            {"full_context", b.full_context},
            {"attended", b.attended},
            {"context", b.context},
            {"terms", to_json(b.flops_terms)}}},
          {"kv_cache",
           {{"elements_per_token", b.kv_elements_per_token},
            {"bytes_per_token", kv_bytes_per_token(b, 2)}}},
          {"executed_layers", b.executed_layers}};
}

Json to_json(const Mismatch& m) {
  return {{"flops", m.flops}, {"parameters", m.parameters}, {"kv_cache", m.kv_cache}};
}

}  // namespace smelt::budget
