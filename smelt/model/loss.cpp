#include "smelt/model/loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "smelt/core/error.h"
#include "smelt/model/kernels.h"
#include "smelt/model/threads.h"

namespace smelt::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t kTileRows = 128;             // rows whose logits one thread holds
constexpr std::int64_t kStoredBytes = 256ll << 20;  // softmax kept for the way back up to this size
constexpr std::int64_t kBackwardRows = 512;         // rows of logit gradients at a time

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

/// Softmax of the logits of rows begin … end - 1 into `tile` [rows, V]; `hidden` is padded to
/// kRowTile rows.
void logits_tile(const float* hidden, const float* head, float* tile, std::int64_t rows,
                 std::int64_t width, std::int64_t vocab) {
  multiply({.b_side = Side::kTransposed,
            .m = padded_rows(rows),
            .n = vocab,
            .k = width,
            .a = hidden,
            .lda = width,
            .b = head,
            .ldb = width,
            .c = tile,
            .ldc = vocab});
}

struct TokenNll : Function<TokenNll> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& hidden, const at::Tensor& head,
                            const at::Tensor& positions, const at::Tensor& targets) {
    const std::int64_t count = positions.numel(), width = hidden.size(1), vocab = head.size(0);
    const std::int64_t padded = padded_rows(count);
    at::Tensor nll = at::zeros({hidden.size(0)}, hidden.options());
    at::Tensor rows = at::zeros({padded, width}, hidden.options());
    rows.narrow(0, 0, count).copy_(hidden.index_select(0, positions));
    const bool needed = hidden.requires_grad() || head.requires_grad();
    const bool keep = needed && padded * vocab * 4 <= kStoredBytes;
    at::Tensor probabilities = keep ? at::empty({padded, vocab}, hidden.options()) : at::Tensor();
    const auto* where = positions.const_data_ptr<std::int64_t>();
    const auto* wanted = targets.const_data_ptr<std::int64_t>();
    const float *from = data(rows), *w = data(head);
    float *out = mutable_data(nll), *stored = keep ? mutable_data(probabilities) : nullptr;
    parallel_chunks(count, kTileRows, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> own(keep ? 0 : static_cast<std::size_t>(padded_rows(end - begin) * vocab));
      float* tile = keep ? stored + begin * vocab : own.data();
      logits_tile(from + begin * width, w, tile, end - begin, width, vocab);
      for (std::int64_t i = begin; i < end; ++i) {
        float* row = tile + (i - begin) * vocab;
        const float logit = row[wanted[i]];
        out[where[i]] = (keep ? softmax(row, vocab) : logsumexp(row, vocab)) - logit;
      }
    });
    ctx->save_for_backward({rows, head, positions, targets, probabilities});
    ctx->saved_data["tokens"] = hidden.size(0);
    return nll;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &rows = saved[0], &head = saved[1], &positions = saved[2];
    const at::Tensor &targets = saved[3], &probabilities = saved[4];
    const std::int64_t count = positions.numel(), width = rows.size(1), vocab = head.size(0);
    const at::Tensor grad = grads[0].contiguous();
    const auto* where = positions.const_data_ptr<std::int64_t>();
    const auto* wanted = targets.const_data_ptr<std::int64_t>();
    const float* up = data(grad);
    at::Tensor drows = at::empty({count, width}, rows.options());
    at::Tensor dhead = at::zeros_like(head);
    at::Tensor buffer =
        at::empty({padded_rows(std::min(kBackwardRows, count)), vocab}, rows.options());
    for (std::int64_t first = 0; first < count; first += kBackwardRows) {
      const std::int64_t size = std::min(kBackwardRows, count - first);
      float* tile = mutable_data(buffer);
      const float* kept = probabilities.defined() ? data(probabilities) + first * vocab : nullptr;
      parallel_chunks(size, kTileRows, [&](std::int64_t begin, std::int64_t end) {
        float* part = tile + begin * vocab;
        if (!kept) {
          logits_tile(data(rows) + (first + begin) * width, data(head), part, end - begin, width,
                      vocab);
        }
        for (std::int64_t i = begin; i < end; ++i) {
          float* row = tile + i * vocab;
          const float g = up[where[first + i]];
          if (!kept) softmax(row, vocab);
          scale_into(row, kept ? kept + i * vocab : row, g, vocab);
          row[wanted[first + i]] -= g;
        }
      });
      const at::Tensor dlogits = buffer.narrow(0, 0, size);
      at::Tensor part = drows.narrow(0, first, size);
      at::mm_out(part, dlogits, head);
      dhead.addmm_(dlogits.t(), rows.narrow(0, first, size));
    }
    at::Tensor dhidden = at::zeros({ctx->saved_data["tokens"].toInt(), width}, rows.options());
    dhidden.index_copy_(0, positions, drows);
    return {dhidden, dhead, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor token_nll(const Decoder& decoder, const at::Tensor& hidden, const at::Tensor& targets) {
  const Scored scored = unmasked(targets.contiguous(), decoder.head.size(0));
  return TokenNll::apply(hidden, decoder.head, scored.positions, scored.targets);
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

Losses losses(const Forward& out, const at::Tensor& nll, std::int64_t target_count,
              const ObjectiveOptions& options) {
  Losses result;
  result.loss = nll.sum() / static_cast<double>(std::max<std::int64_t>(target_count, 1));
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
