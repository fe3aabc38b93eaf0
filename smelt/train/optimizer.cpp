#include "smelt/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "smelt/core/error.h"

namespace smelt::train {

Moments zero_moments(const model::NamedTensors& parameters) {
  Moments moments;
  for (const auto& [name, tensor] : parameters) {
    moments.first.push_back(at::zeros_like(tensor, at::MemoryFormat::Contiguous));
    moments.second.push_back(at::zeros_like(tensor, at::MemoryFormat::Contiguous));
  }
  return moments;
}

std::string parameter_group(const std::string& name) {
  if (name.ends_with("norm.weight")) return "norms";
  if (name.ends_with("embed_tokens.weight")) return "embedding";
  if (name == "lm_head.weight") return "head";
  if (name.ends_with("mlp.gate.weight")) return "router";
  return "";
}

AdamW::AdamW(const TrainOptions& options, model::NamedTensors parameters, Moments moments)
    : options_(options), parameters_(std::move(parameters)), moments_(std::move(moments)) {
  Problems problems("train");
  Group decayed{{}, options.weight_decay};
  Group plain{{}, 0};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& tensor = parameters_[i].second;
    // The fused update walks raw memory.
    if (!tensor.is_contiguous() || tensor.scalar_type() != at::kFloat) {
      problems.add("parameter " + parameters_[i].first + " must be contiguous fp32");
    }
    const std::string group = parameter_group(parameters_[i].first);
    const auto& without = options.no_decay;
    const bool decays = std::find(without.begin(), without.end(), group) == without.end();
    (decays ? decayed : plain).members.push_back(static_cast<std::int64_t>(i));
  }
  problems.throw_if_any();
  for (Group& group : std::vector<Group>{decayed, plain}) {
    if (!group.members.empty()) groups_.push_back(std::move(group));
  }
}

void AdamW::clear_gradients() {
  for (auto& [name, tensor] : parameters_) tensor.mutable_grad() = at::Tensor();
}

UpdateResult AdamW::step(double lr, std::int64_t update) {
  torch::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (auto& [name, tensor] : parameters_) {
    at::Tensor gradient = tensor.grad();
    gradients.push_back(gradient.defined() ? gradient.contiguous() : at::zeros_like(tensor));
  }
  const at::Tensor norms = at::stack(at::_foreach_norm(gradients, 2)).to(at::kDouble);
  UpdateResult result;
  result.grad_norm = norms.square().sum().sqrt().item<double>();
  if (!std::isfinite(result.grad_norm)) {
    const auto* norm = norms.const_data_ptr<double>();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!std::isfinite(norm[i])) result.non_finite.push_back(parameters_[i].first);
    }
    return result;
  }
  // The fused update divides the gradient by grad_scale: clipping without a pass of its own.
  std::optional<at::Tensor> scale;
  if (options_.clip > 0 && result.grad_norm > options_.clip) {
    scale = at::scalar_tensor(result.grad_norm / options_.clip, at::kFloat);
  }
  const at::Tensor count = at::scalar_tensor(static_cast<double>(update), at::kFloat);
  for (const Group& group : groups_) {
    std::vector<at::Tensor> weights, grads, first, second;
    for (const std::int64_t member : group.members) {
      const auto i = static_cast<std::size_t>(member);
      weights.push_back(parameters_[i].second);
      grads.push_back(gradients[i]);
      first.push_back(moments_.first[i]);
      second.push_back(moments_.second[i]);
    }
    const std::vector<at::Tensor> counts(weights.size(), count);
    at::_fused_adamw_(weights, grads, first, second, {}, counts, lr, options_.beta1, options_.beta2,
                      group.weight_decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false,
                      scale);
  }
  return result;
}

}  // namespace smelt::train
