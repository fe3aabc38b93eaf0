#include "smelt/probe/write_stats.h"

namespace smelt::probe {

at::Tensor sum_by_piece(const at::Tensor& values, const model::Batch& batch) {
  const auto pieces = static_cast<std::int64_t>(batch.pieces.size());
  at::Tensor sums = at::empty({pieces, values.size(1)}, at::kDouble);
  const at::Tensor source = values.to(at::kCPU, at::kDouble);
  for (std::int64_t p = 0; p < pieces; ++p) {
    const model::Piece& piece = batch.pieces[static_cast<std::size_t>(p)];
    sums.select(0, p).copy_(source.narrow(0, piece.begin, piece.length).sum(0));
  }
  return sums;
}

at::Tensor token_norms(const model::LayerTrace& trace) {
  const auto norm = [](const at::Tensor& x) { return x.to(at::kDouble).norm(2, -1); };
  const double scale = trace.layer.residual_scale;
  const at::Tensor attention = norm(trace.attention_output) * scale;
  const at::Tensor moe = norm(trace.moe_output) * scale;
  const at::Tensor update = norm((trace.attention_output + trace.moe_output) * scale);
  const at::Tensor x_in = norm(trace.x_in);
  return at::stack({update, attention, moe, norm(trace.attention_input), norm(trace.moe_input),
                    attention / x_in, moe / norm(trace.x_mid), update / x_in},
                   1);
}

at::Tensor cosine(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  return (x * y).sum(-1) / (x.norm(2, -1) * y.norm(2, -1));
}

at::Tensor common_experts(const at::Tensor& a, const at::Tensor& b) {
  return a.unsqueeze(2).eq(b.unsqueeze(1)).sum({1, 2}).to(at::kDouble);
}

at::Tensor cosine_sums(const at::Tensor& writes, const model::Batch& batch) {
  const auto pieces = static_cast<std::int64_t>(batch.pieces.size());
  const std::int64_t layers = writes.size(0);
  const at::Tensor directions = writes / writes.norm(2, -1, /*keepdim=*/true);
  at::Tensor sums = at::empty({pieces, layers, layers}, at::kDouble);
  for (std::int64_t p = 0; p < pieces; ++p) {
    const model::Piece& piece = batch.pieces[static_cast<std::size_t>(p)];
    const at::Tensor flat = directions.narrow(1, piece.begin, piece.length).reshape({layers, -1});
    sums.select(0, p).copy_(flat.mm(flat.t()));
  }
  return sums;
}

void add_column(const at::Tensor& sums, std::int64_t column, const ProbeBatch& batch,
                DocumentMean& figure) {
  const auto values = sums.accessor<double, 2>();
  for (std::size_t p = 0; p < batch.documents.size(); ++p) {
    figure.add(batch.documents[p], values[static_cast<std::int64_t>(p)][column],
               static_cast<double>(batch.batch.pieces[p].length));
  }
}

}  // namespace smelt::probe
