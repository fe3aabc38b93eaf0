#include "smelt/model/loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "smelt/core/error.h"
#include "smelt/model/kernels.h"
#include "smelt/model/products.h"
#include "smelt/model/threads.h"

namespace smelt::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t kTileRows = 128;         // rows whose logits one thread holds
constexpr std::int64_t kChunkLogits = 8 << 20;  // logits that exist at once on the way to gradients

const float* data(const at::Tensor& tensor) {
  return tensor.const_data_ptr<float>();
}
float* mutable_data(const at::Tensor& tensor) {
  return tensor.mutable_data_ptr<float>();
}

/// The unmasked positions of `targets` [N], and their targets.
struct Scored {
  at::Tensor positions;  // [U] int64
  at::Tensor targets;    // [U] int64
};

Scored unmasked(const at::Tensor& targets, std::int64_t vocab) {
  const auto* t = targets.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> positions, chosen;
  for (std::int64_t i = 0; i < targets.numel(); ++i) {
    if (t[i] == kMasked) continue;
    if (t[i] < 0 || t[i] >= vocab) {
      throw Error("model", fmt::format("target {} at position {} is outside the vocabulary of {}",
                                       t[i], i, vocab));
    }
    positions.push_back(i);
    chosen.push_back(t[i]);
  }
  return {torch::tensor(positions, at::kLong), torch::tensor(chosen, at::kLong)};
}

/// The gradient of Σ nll is known as soon as the logits are: both are made in one go, a chunk of
/// rows at a time, and only scaled on the way back.
struct SumNll : Function<SumNll> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& hidden, const at::Tensor& head,
                            const Scored& scored, Precision precision, bool with_gradient,
                            at::Tensor* token_nll) {
    RECORD_FUNCTION("smelt::head and cross entropy", {});
    const std::int64_t count = scored.positions.numel(), width = hidden.size(1);
    const std::int64_t vocab = head.size(0);
    const std::int64_t chunk = std::clamp<std::int64_t>(kChunkLogits / vocab, kTileRows, 1024);
    const at::Tensor rows = hidden.index_select(0, scored.positions);
    at::Tensor nll = at::empty({count}, hidden.options());
    at::Tensor logits = at::empty({std::min(chunk, count), vocab}, hidden.options());
    at::Tensor drows = with_gradient ? at::empty_like(rows) : at::Tensor();
    at::Tensor dhead = with_gradient ? at::zeros_like(head) : at::Tensor();
    const auto* wanted = scored.targets.const_data_ptr<std::int64_t>();
    const float *from = data(rows), *w = data(head);
    float *out = mutable_data(nll), *tile = mutable_data(logits);
    for (std::int64_t first = 0; first < count; first += chunk) {
      const std::int64_t size = std::min(chunk, count - first);
      const float* part = from + first * width;
      linear(part, w, tile, size, width, vocab, precision);
      parallel_chunks(size, kTileRows / 8, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          float* row = tile + i * vocab;
          const float logit = row[wanted[first + i]];
          out[first + i] = (with_gradient ? softmax(row, vocab) : logsumexp(row, vocab)) - logit;
          if (with_gradient) row[wanted[first + i]] -= 1;
        }
      });
      if (!with_gradient) continue;
      linear_input_gradient(tile, w, mutable_data(drows) + first * width, size, width, vocab,
                            precision);
      linear_weight_gradient(tile, part, mutable_data(dhead), size, width, vocab, precision,
                             first > 0);
    }
    if (with_gradient) {
      ctx->save_for_backward({drows, dhead, scored.positions});
      ctx->saved_data["tokens"] = hidden.size(0);
    }
    if (token_nll) {
      *token_nll = at::zeros({hidden.size(0)}, hidden.options());
      token_nll->index_copy_(0, scored.positions, nll);
    }
    return nll.sum(at::kDouble);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    RECORD_FUNCTION("smelt::head and cross entropy backward", {});
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &drows = saved[0], &dhead = saved[1], &positions = saved[2];
    const double up = grads[0].item<double>();
    at::Tensor dhidden =
        at::zeros({ctx->saved_data["tokens"].toInt(), drows.size(1)}, drows.options());
    dhidden.index_copy_(0, positions, drows * up);
    return {dhidden, dhead * up, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor sum_nll(const Decoder& decoder, const at::Tensor& hidden, const at::Tensor& targets,
                   at::Tensor* token_nll) {
  const Scored scored = unmasked(targets.contiguous(), decoder.head.size(0));
  const bool with_gradient =
      at::GradMode::is_enabled() && (hidden.requires_grad() || decoder.head.requires_grad());
  return SumNll::apply(hidden, decoder.head, scored, decoder.precision, with_gradient, token_nll);
}

at::Tensor token_nll(const Decoder& decoder, const at::Tensor& hidden, const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  const Scored scored = unmasked(targets.contiguous(), decoder.head.size(0));
  const std::int64_t width = hidden.size(1), vocab = decoder.head.size(0);
  const at::Tensor rows = hidden.index_select(0, scored.positions);
  at::Tensor nll = at::zeros({hidden.size(0)}, hidden.options());
  const auto* where = scored.positions.const_data_ptr<std::int64_t>();
  const auto* wanted = scored.targets.const_data_ptr<std::int64_t>();
  const float *from = data(rows), *w = data(decoder.head);
  float* out = mutable_data(nll);
  parallel_chunks(rows.size(0), kTileRows, [&](std::int64_t begin, std::int64_t end) {
    float* tile = scratch<struct Logits>((end - begin) * vocab);
    linear(from + begin * width, w, tile, end - begin, width, vocab, decoder.precision);
    for (std::int64_t i = begin; i < end; ++i) {
      const float* row = tile + (i - begin) * vocab;
      out[where[i]] = logsumexp(row, vocab) - row[wanted[i]];
    }
  });
  return nll;
}

at::Tensor expert_counts(const at::Tensor& experts, std::int64_t num_experts) {
  const at::Tensor flat = experts.contiguous();
  at::Tensor counts = at::zeros({num_experts}, at::kLong);
  const auto* chosen = flat.const_data_ptr<std::int64_t>();
  auto* count = counts.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < flat.numel(); ++i) ++count[chosen[i]];
  return counts;
}

at::Tensor load_balance_loss(const at::Tensor& counts, const at::Tensor& probabilities) {
  const at::Tensor shares = counts.to(at::kDouble);
  const at::Tensor fractions = (shares / shares.sum()).to(probabilities.scalar_type());
  return (fractions * probabilities.mean(0)).sum() * static_cast<double>(counts.size(0));
}

at::Tensor load_balance_loss_per_row(const Routing& routing, std::int64_t rows) {
  const std::int64_t experts = routing.probabilities.size(1);
  const std::int64_t length = routing.probabilities.size(0) / rows;
  std::vector<at::Tensor> each;
  for (std::int64_t row = 0; row < rows; ++row) {
    each.push_back(
        load_balance_loss(expert_counts(routing.experts.narrow(0, row * length, length), experts),
                          routing.probabilities.narrow(0, row * length, length)));
  }
  return at::stack(each).mean();
}

at::Tensor z_loss(const at::Tensor& logsumexp) {
  return logsumexp.square().mean();
}

Losses losses(const Forward& out, const at::Tensor& sum_nll, std::int64_t target_count,
              const ObjectiveOptions& options) {
  Losses result;
  result.loss = sum_nll / static_cast<double>(std::max<std::int64_t>(target_count, 1));
  for (const Routing& routing : out.routing) {
    result.load_balance.push_back(load_balance_loss(
        expert_counts(routing.experts, routing.probabilities.size(1)), routing.probabilities));
    result.z_loss.push_back(z_loss(routing.logsumexp));
  }
  result.objective = result.loss;
  if (options.load_balance != 0) {
    result.objective =
        result.objective + at::stack(result.load_balance).mean() * options.load_balance;
  }
  if (options.z_loss != 0) {
    result.objective = result.objective + at::stack(result.z_loss).mean() * options.z_loss;
  }
  return result;
}

}  // namespace smelt::model
