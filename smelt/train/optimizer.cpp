#include "smelt/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <span>

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

AdamW::AdamW(const TrainOptions& options, model::NamedTensors parameters, Moments moments,
             Collectives& ranks)
    : options_(options), parameters_(std::move(parameters)), ranks_(&ranks) {
  Problems problems("train");
  std::int64_t total = 0;
  for (const auto& [name, tensor] : parameters_) {
    // The fused update walks raw memory.
    if (!tensor.is_contiguous() || tensor.scalar_type() != at::kFloat) {
      problems.add("parameter " + name + " must be contiguous fp32");
    }
    total += tensor.numel();
  }
  problems.throw_if_any();
  const std::int64_t size = ranks.size(), rank = ranks.rank();
  for (std::int64_t r = 0; r < size; ++r) {
    counts_.push_back(total * (r + 1) / size - total * r / size);
  }
  const std::int64_t first = total * rank / size, last = total * (rank + 1) / size;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, tensor] = parameters_[i];
    const auto& without = options.no_decay;
    const bool decays =
        std::find(without.begin(), without.end(), parameter_group(name)) == without.end();
    const Slice slice{i, std::max<std::int64_t>(first - at, 0), std::min(last - at, tensor.numel()),
                      decays ? options.weight_decay : 0};
    at += tensor.numel();
    if (slice.begin >= slice.end) continue;
    slices_.push_back(slice);
    const auto own = [&](const at::Tensor& whole) {
      if (size == 1) return whole;
      return whole.flatten().slice(0, slice.begin, slice.end).clone();
    };
    moments_.first.push_back(own(moments.first[i]));
    moments_.second.push_back(own(moments.second[i]));
  }
  if (size > 1) {
    all_ = at::empty({total}, at::kFloat);
    own_ = at::empty({last - first}, at::kFloat);
  }
}

void AdamW::clear_gradients() {
  for (auto& [name, tensor] : parameters_) tensor.mutable_grad() = at::Tensor();
}

std::vector<at::Tensor> AdamW::gradients() const {
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : parameters_) {
    const at::Tensor gradient = tensor.grad();
    all.push_back(gradient.defined() ? gradient.contiguous() : at::zeros_like(tensor));
  }
  return all;
}

std::vector<at::Tensor> AdamW::own_gradients() {
  const std::vector<at::Tensor> whole = gradients();
  if (ranks_->size() == 1) return whole;
  std::int64_t at = 0;
  for (const at::Tensor& gradient : whole) {
    all_.narrow(0, at, gradient.numel()).copy_(gradient.flatten());
    at += gradient.numel();
  }
  ranks_->reduce_scatter(all_.const_data_ptr<float>(), own_.mutable_data_ptr<float>(), counts_);
  std::vector<at::Tensor> own;
  at = 0;
  for (const Slice& slice : slices_) {
    own.push_back(own_.narrow(0, at, slice.end - slice.begin));
    at += slice.end - slice.begin;
  }
  return own;
}

UpdateResult AdamW::step(double lr, std::int64_t update) {
  RECORD_FUNCTION("smelt::optimizer", {});
  torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> grads = own_gradients();
  const at::Tensor norms = at::stack(at::_foreach_norm(grads, 2)).to(at::kDouble);
  UpdateResult result;
  double squares = norms.square().sum().item<double>();
  ranks_->sum(std::span(&squares, 1));
  result.grad_norm = std::sqrt(squares);
  if (!std::isfinite(result.grad_norm)) {
    std::vector<std::int64_t> bad(parameters_.size());
    const auto* norm = norms.const_data_ptr<double>();
    for (std::size_t s = 0; s < slices_.size(); ++s) {
      if (!std::isfinite(norm[s])) bad[slices_[s].parameter] = 1;
    }
    ranks_->sum(std::span(bad));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (bad[i] > 0) result.non_finite.push_back(parameters_[i].first);
    }
    return result;
  }
  // The fused update divides the gradient by grad_scale: clipping without a pass of its own.
  std::optional<at::Tensor> scale;
  if (options_.clip > 0 && result.grad_norm > options_.clip) {
    scale = at::scalar_tensor(result.grad_norm / options_.clip, at::kFloat);
  }
  const at::Tensor count = at::scalar_tensor(static_cast<double>(update), at::kFloat);
  for (const double decay : {options_.weight_decay, 0.0}) {
    std::vector<at::Tensor> weights, gradients_of, first, second;
    for (std::size_t s = 0; s < slices_.size(); ++s) {
      const Slice& slice = slices_[s];
      if (slice.weight_decay != decay) continue;
      const at::Tensor& whole = parameters_[slice.parameter].second;
      weights.push_back(ranks_->size() == 1 ? whole
                                            : whole.view(-1).slice(0, slice.begin, slice.end));
      gradients_of.push_back(grads[s]);
      first.push_back(moments_.first[s]);
      second.push_back(moments_.second[s]);
    }
    if (weights.empty()) continue;
    const std::vector<at::Tensor> counts(weights.size(), count);
    at::_fused_adamw_(weights, gradients_of, first, second, {}, counts, lr, options_.beta1,
                      options_.beta2, decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false,
                      scale);
    if (decay == 0.0) break;  // without weight decay both groups are one
  }
  if (ranks_->size() > 1) share_weights();
  return result;
}

void AdamW::share_weights() {
  std::int64_t at = 0;
  for (const Slice& slice : slices_) {
    const std::int64_t count = slice.end - slice.begin;
    const at::Tensor& whole = parameters_[slice.parameter].second;
    own_.narrow(0, at, count).copy_(whole.view(-1).slice(0, slice.begin, slice.end));
    at += count;
  }
  ranks_->all_gather(own_.const_data_ptr<float>(), all_.mutable_data_ptr<float>(), counts_);
  at = 0;
  for (auto& [name, tensor] : parameters_) {
    tensor.view(-1).copy_(all_.narrow(0, at, tensor.numel()));
    at += tensor.numel();
  }
}

Moments AdamW::moments() const {
  if (ranks_->size() == 1) return moments_;
  const auto whole = [&](const std::vector<at::Tensor>& own) {
    at::Tensor all = at::empty_like(all_);
    const at::Tensor joined = own.empty() ? at::empty({0}, at::kFloat) : at::cat(own);
    ranks_->all_gather(joined.const_data_ptr<float>(), all.mutable_data_ptr<float>(), counts_);
    std::vector<at::Tensor> tensors;
    std::int64_t at = 0;
    for (const auto& [name, tensor] : parameters_) {
      tensors.push_back(all.narrow(0, at, tensor.numel()).view(tensor.sizes()));
      at += tensor.numel();
    }
    return tensors;
  };
  return {whole(moments_.first), whole(moments_.second)};
}

}  // namespace smelt::train
