#include "smelt/budget/budget.h"

#include <algorithm>
#include <utility>

#include "smelt/budget/layer_cost.h"

namespace smelt::budget {
namespace {

/// Sums by name in the order of first use; what a model does not have is left out.
class Terms {
 public:
  void add(const char* name, double count) {
    if (count == 0) return;
    const auto found = std::find_if(terms_.begin(), terms_.end(),
                                    [name](const Term& term) { return term.name == name; });
    if (found == terms_.end()) {
      terms_.push_back({name, count});
    } else {
      found->count += count;
    }
  }
  std::vector<Term> take() { return std::move(terms_); }

 private:
  std::vector<Term> terms_;
};

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

double bytes_of(CacheType type) {
  switch (type) {
    case CacheType::kF32:
      return 4;
    case CacheType::kFp8:
      return 1;
    case CacheType::kF16:
    case CacheType::kBf16:
      break;
  }
  return 2;
}

Budget count(const arch::ModelConfig& model, double attended, double context) {
  const AttentionCost a = attention_cost(model);
  const auto layers = static_cast<double>(model.num_hidden_layers);
  const auto executed = static_cast<double>(model.executed_layers());
  const auto hidden = static_cast<double>(model.hidden_size);
  const double embedding = static_cast<double>(model.vocab_size) * hidden;

  Budget b;
  b.attended = attended;
  b.context = context;
  b.executed_layers = model.executed_layers();
  b.width_to_depth = hidden / executed;

  Terms parameters, flops;
  const auto weights = [&](const char* name, double per_layer, double visits, double used) {
    parameters.add(name, per_layer);
    flops.add(name, 6 * visits * used);
    b.parameters_executed += visits * used;
  };
  double unused = 0;
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    const auto visits = static_cast<double>(model.visits_of(layer));
    const FeedForwardCost f = feed_forward_cost(model, layer);
    weights("attention q", a.query, visits, a.query);
    weights("attention k, v", a.key_value, visits, a.key_value);
    weights("attention o", a.output, visits, a.output);
    flops.add("attention scores", 6 * visits * a.scores * attended);
    weights("router", f.router, visits, f.router);
    weights("experts", f.expert * f.experts, visits, f.expert * f.used);
    weights("shared experts", f.shared, visits, f.shared);
    weights("dense feed-forwards", f.dense, visits, f.dense);
    parameters.add("biases", a.biases + f.biases);
    unused += f.expert * (f.experts - f.used);
  }
  parameters.add("norms", layers * 2 * hidden);
  parameters.add("q/k norms", layers * a.norms);
  b.parameter_terms = parameters.take();
  b.parameters_total = sum(b.parameter_terms);
  b.parameters_active = b.parameters_total - unused;
  b.parameters_embedding = embedding * (model.tie_word_embeddings ? 1 : 2) + hidden;

  b.flops_terms = flops.take();
  b.flops_per_token = sum(b.flops_terms);
  b.flops_forward = b.flops_per_token / 3;
  b.flops_head = 6 * embedding;
  b.six_n = 6 * b.parameters_active;
  b.full_context = 6 * b.parameters_executed + 6 * executed * a.scores * context;
  b.kv_elements_per_token = executed * a.cached;
  return b;
}

double sparsity(const Budget& model, const Budget& control) {
  return 1 - model.flops_per_token / control.flops_per_token * control.parameters_total /
                 model.parameters_total;
}

arch::ModelConfig fully_active(arch::ModelConfig model) {
  model.num_experts = model.num_experts_per_tok;  // 0 for a dense model
  return model;
}

Mismatch mismatch(const Budget& model, const Budget& baseline) {
  return {.flops = model.flops_per_token / baseline.flops_per_token - 1,
          .parameters = model.parameters_total / baseline.parameters_total - 1,
          .kv_cache = model.kv_elements_per_token / baseline.kv_elements_per_token - 1};
}

Json to_json(const Budget& b, CacheType type) {
  const double bytes_per_token = b.kv_elements_per_token * bytes_of(type);
  return {{"schema", "smelt.budget/1"},
          {"parameters",
           {{"total", b.parameters_total},
            {"active", b.parameters_active},
            {"executed", b.parameters_executed},
            {"embedding", b.parameters_embedding},
            {"total_with_embedding", b.parameters_total_all()},
            {"active_with_embedding", b.parameters_active_all()},
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
            {"bytes_per_token", bytes_per_token},
            {"bytes_per_sequence", bytes_per_token * b.context},
            {"element", enum_name(type)}}},
          {"executed_layers", b.executed_layers},
          {"width_to_depth", b.width_to_depth}};
}

Json to_json(const Mismatch& m) {
  return {{"flops", m.flops}, {"parameters", m.parameters}, {"kv_cache", m.kv_cache}};
}

}  // namespace smelt::budget
