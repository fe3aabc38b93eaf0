#include "smelt/model/recompute.h"

namespace smelt::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// What backward needs beside the tensors that autograd saves.
struct Span : torch::CustomClassHolder {
  Span(const Decoder& d, std::size_t f, std::size_t e, Rotary r, std::vector<Piece> p)
      : decoder(d), first(f), end(e), rotary(std::move(r)), pieces(std::move(p)) {}

  /// x and, per layer, probabilities and logsumexp; `experts` may be empty: then they are chosen
  /// here, into it.
  variable_list run(at::Tensor x, variable_list& experts) const {
    const Attend attend = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      return attention(q, k, v, pieces);
    };
    const bool choose = experts.empty();
    variable_list out(1);
    for (std::size_t e = first; e < end; ++e) {
      const at::Tensor given = choose ? at::Tensor() : experts[e - first];
      LayerOutput layer = forward_layer(decoder, e, x, rotary, attend, {}, given);
      x = std::move(layer.x);
      if (choose) experts.push_back(layer.routing.experts);
      out.push_back(std::move(layer.routing.probabilities));
      out.push_back(std::move(layer.routing.logsumexp));
    }
    out[0] = std::move(x);
    return out;
  }

  Decoder decoder;  // shares the weights' storage
  std::size_t first, end;
  Rotary rotary;
  std::vector<Piece> pieces;
};

struct Recomputed : Function<Recomputed> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x,
                               const c10::intrusive_ptr<Span>& span, variable_list* experts) {
    variable_list out = span->run(x, *experts);
    variable_list saved = *experts;
    saved.push_back(x);
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["span"] = c10::IValue::make_capsule(span);
    ctx->set_materialize_grads(false);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    variable_list experts = ctx->get_saved_variables();
    const at::Tensor x = experts.back().detach().requires_grad_();
    experts.pop_back();
    const auto span = c10::static_intrusive_pointer_cast<Span>(ctx->saved_data["span"].toCapsule());
    variable_list out;
    {
      const at::AutoGradMode with_gradient(true);
      out = span->run(x, experts);
    }
    variable_list roots, root_grads;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!grads[i].defined()) continue;
      roots.push_back(out[i]);
      root_grads.push_back(grads[i]);
    }
    torch::autograd::backward(roots, root_grads);
    return {x.grad(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::size_t recomputed_until(const Decoder& decoder, std::size_t first) {
  if (decoder.recompute == arch::Recompute::kNone) return first;
  if (decoder.recompute == arch::Recompute::kLayer) return first + 1;
  const auto& loop = decoder.config.loop;
  if (!loop || loop->visits < 2) return first;
  const auto inside = [&](const arch::ExecutedLayer& layer) {
    return layer.layer + 1 >= loop->first && layer.layer + 1 <= loop->last;
  };
  std::size_t end = first;
  while (end < decoder.executed_layers() && inside(decoder.schedule[end]) &&
         decoder.schedule[end].visit == decoder.schedule[first].visit) {
    ++end;
  }
  return end;
}

at::Tensor forward_recomputed(const Decoder& decoder, std::size_t first, std::size_t end,
                              const at::Tensor& x, const Rotary& rotary,
                              const std::vector<Piece>& pieces, std::vector<Routing>& routing) {
  // A gradient must flow through x for backward to come by, also when nothing before it learns.
  const at::Tensor stream = x.requires_grad() ? x : x.detach().requires_grad_();
  variable_list experts;
  const auto span = c10::make_intrusive<Span>(decoder, first, end, rotary, pieces);
  const variable_list out = Recomputed::apply(stream, span, &experts);
  for (std::size_t e = 0; e < end - first; ++e) {
    routing.push_back({out[1 + 2 * e], experts[e], out[2 + 2 * e]});
  }
  return out[0];
}

}  // namespace smelt::model
