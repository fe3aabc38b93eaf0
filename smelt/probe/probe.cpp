#include "smelt/probe/probe.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "smelt/core/error.h"
#include "smelt/data/windows.h"
#include "smelt/probe/attention_stats.h"
#include "smelt/probe/write_stats.h"

namespace smelt::probe {
namespace {

/// What is kept of an executed layer until the batch is through.
struct Kept {
  QueryKey query_key;  // the five of span layers only
  at::Tensor x, o, v, pv;
  at::Tensor experts;     // of span layers
  at::Tensor norms;       // [N, kNorms]
  at::Tensor norm_sums;   // [pieces, kNorms]
  at::Tensor attn_write;  // [N, H]
  at::Tensor moe_write;   // [N, H]
};

class Prober {
 public:
  Prober(const model::Decoder& decoder, const ProbeOptions& options) : decoder_(decoder) {
    const arch::ModelConfig& config = decoder.config;
    const auto heads = static_cast<std::size_t>(config.num_attention_heads);
    const std::size_t executed = decoder.executed_layers();
    const Attended attended{Heads(heads), Heads(heads), Heads(heads)};
    result_.executed = decoder.schedule;
    result_.options = options;
    const auto k = static_cast<double>(config.num_experts_per_tok);
    result_.expert_chance = k * k / static_cast<double>(config.num_experts);
    result_.sink.assign(executed, Heads(heads));
    result_.sink_including_first.assign(executed, Heads(heads));
    if (options.attended) result_.head_control.assign(executed, attended);
    if (options.writes) {
      result_.norms.assign(executed, std::vector<DocumentMean>(kNorms));
      const Matrix square(executed, std::vector<DocumentMean>(executed));
      result_.write_cosine.assign(kWrites, square);
    }
    make_pairs();
  }

  void add(const ProbeBatch& batch) {
    if (batch.documents.size() != batch.batch.pieces.size()) {
      throw Error("probe", fmt::format("{} pieces but {} document numbers",
                                       batch.batch.pieces.size(), batch.documents.size()));
    }
    kept_.assign(decoder_.executed_layers(), Kept{});
    model::Observer observer;
    observer.layer = [&](const model::LayerTrace& trace) { on_layer(trace, batch); };
    model::forward(decoder_, batch.batch, observer);
    if (result_.options.writes) add_write_cosines(batch);
    for (VisitPair& pair : result_.pairs) {
      for (LayerPair& layer : pair.layers) add_pair(layer, batch);
    }
    result_.tokens += batch.batch.size();
    for (const std::int64_t document : batch.documents) {
      result_.documents += document != last_document_ ? 1 : 0;
      last_document_ = document;
    }
  }

  ProbeResult take() { return std::move(result_); }

 private:
  /// Execution index of a physical layer's visit.
  std::size_t executed_index(std::int64_t layer, std::int64_t visit) const {
    for (std::size_t e = 0; e < result_.executed.size(); ++e) {
      if (result_.executed[e].layer == layer && result_.executed[e].visit == visit) return e;
    }
    throw Error("probe", fmt::format("layer {} has no visit {}", layer + 1, visit));
  }

  void make_pairs() {
    const arch::ModelConfig& config = decoder_.config;
    if (config.visits() < 2) return;
    const auto heads = static_cast<std::size_t>(config.num_attention_heads);
    const auto kv_heads = static_cast<std::size_t>(config.num_key_value_heads);
    for (std::int64_t a = 1; a < config.visits(); ++a) {
      for (std::int64_t b = a + 1; b <= config.visits(); ++b) {
        VisitPair pair{.visit_a = a, .visit_b = b, .layers = {}, .other_pairs_cosine = {}};
        for (std::int64_t l = config.loop->first - 1; l < config.loop->last; ++l) {
          LayerPair layer;
          layer.layer = l;
          layer.executed_a = executed_index(l, a);
          layer.executed_b = executed_index(l, b);
          layer.cosine_q = layer.cosine_pv = Heads(heads);
          layer.cosine_k = layer.cosine_v = Heads(kv_heads);
          if (result_.options.attended) layer.attended = {Heads(heads), Heads(heads), Heads(heads)};
          pair.layers.push_back(std::move(layer));
        }
        result_.pairs.push_back(std::move(pair));
      }
    }
  }

  bool in_span(std::int64_t layer) const {
    return decoder_.config.visits() > 1 && layer + 1 >= decoder_.config.loop->first &&
           layer + 1 <= decoder_.config.loop->last;
  }

  void on_layer(const model::LayerTrace& trace, const ProbeBatch& batch) {
    const std::size_t e = trace.executed;
    const QueryKey query_key{trace.q, trace.k};
    Attended* control = result_.options.attended ? &result_.head_control[e] : nullptr;
    for (std::size_t p = 0; p < batch.documents.size(); ++p) {
      add_attention(query_key, batch.batch.pieces[p], batch.documents[p], result_.sink[e],
                    result_.sink_including_first[e], control);
    }
    Kept& kept = kept_[e];
    if (in_span(trace.layer.layer)) {
      kept.experts = trace.routing.experts.clone();
      if (result_.options.attended || result_.options.writes) {
        kept.query_key = {trace.q.clone(), trace.k.clone()};
      }
    }
    if (!result_.options.writes) return;
    kept.norms = token_norms(trace);
    kept.norm_sums = sum_by_piece(kept.norms, batch.batch);
    for (std::size_t i = 0; i < kNorms; ++i) {
      add_column(kept.norm_sums, static_cast<std::int64_t>(i), batch, result_.norms[e][i]);
    }
    kept.attn_write = trace.attention_output * trace.layer.residual_scale;
    kept.moe_write = trace.moe_output * trace.layer.residual_scale;
    if (!in_span(trace.layer.layer)) return;
    kept.x = trace.attention_input.clone();
    kept.o = trace.attention_output.clone();
    kept.v = trace.v.clone();
    kept.pv = trace.pv.clone();
  }

  /// The full matrix, and its entries that compare visits.
  void add_write_cosines(const ProbeBatch& batch) {
    std::vector<at::Tensor> attention, moe;
    for (const Kept& kept : kept_) {
      attention.push_back(kept.attn_write);
      moe.push_back(kept.moe_write);
    }
    const at::Tensor attn_writes = at::stack(attention), moe_writes = at::stack(moe);
    const at::Tensor writes[kWrites] = {attn_writes + moe_writes, attn_writes, moe_writes};
    for (std::size_t w = 0; w < kWrites; ++w) {
      const at::Tensor sums = cosine_sums(writes[w], batch.batch);
      const auto values = sums.accessor<double, 3>();
      for (std::size_t p = 0; p < batch.documents.size(); ++p) {
        const auto weight = static_cast<double>(batch.batch.pieces[p].length);
        const auto at = [&, p](std::size_t e, std::size_t f) {
          return values[static_cast<std::int64_t>(p)][static_cast<std::int64_t>(e)]
                       [static_cast<std::int64_t>(f)];
        };
        for (std::size_t e = 0; e < kept_.size(); ++e) {
          for (std::size_t f = 0; f < kept_.size(); ++f) {
            result_.write_cosine[w][e][f].add(batch.documents[p], at(e, f), weight);
          }
        }
        for (VisitPair& pair : result_.pairs) {
          for (LayerPair& layer : pair.layers) {
            layer.write_cosine[w].add(batch.documents[p], at(layer.executed_a, layer.executed_b),
                                      weight);
            for (const LayerPair& other : pair.layers) {
              if (other.layer == layer.layer) continue;
              pair.other_pairs_cosine[w].add(batch.documents[p],
                                             at(layer.executed_a, other.executed_b), weight);
            }
          }
        }
      }
    }
  }

  void add_pair(LayerPair& pair, const ProbeBatch& batch) {
    const Kept& a = kept_[pair.executed_a];
    const Kept& b = kept_[pair.executed_b];
    const at::Tensor common = common_experts(a.experts, b.experts).unsqueeze(1);
    add_column(sum_by_piece(common, batch.batch), 0, batch, pair.expert_overlap);
    if (result_.options.attended) {
      for (std::size_t p = 0; p < batch.documents.size(); ++p) {
        add_attended(a.query_key, b.query_key, batch.batch.pieces[p], batch.documents[p],
                     pair.attended);
      }
    }
    if (!result_.options.writes) return;
    const auto sums_a = a.norm_sums.accessor<double, 2>(),
               sums_b = b.norm_sums.accessor<double, 2>();
    for (std::size_t i = 0; i < kNorms; ++i) {
      const auto column = static_cast<std::int64_t>(i);
      for (std::size_t p = 0; p < batch.documents.size(); ++p) {
        const auto row = static_cast<std::int64_t>(p);
        pair.norm_ratio[i].add(batch.documents[p], sums_b[row][column], sums_a[row][column]);
      }
    }
    const at::Tensor ratios = sum_by_piece(b.norms / a.norms, batch.batch);
    for (std::size_t i = 0; i < kPlainNorms; ++i) {
      add_column(ratios, static_cast<std::int64_t>(i), batch, pair.norm_ratio_per_token[i]);
    }
    add_cosine(a.x, b.x, batch, nullptr, pair.cosine_x);
    add_cosine(a.o, b.o, batch, nullptr, pair.cosine_o);
    add_cosine(a.query_key.q, b.query_key.q, batch, &pair.cosine_q, pair.cosine_q_mean);
    add_cosine(a.query_key.k, b.query_key.k, batch, &pair.cosine_k, pair.cosine_k_mean);
    add_cosine(a.v, b.v, batch, &pair.cosine_v, pair.cosine_v_mean);
    add_cosine(a.pv, b.pv, batch, &pair.cosine_pv, pair.cosine_pv_mean);
  }

  /// a, b [N, H], or [N, heads, D] with a figure per head; `mean` takes the mean over heads.
  static void add_cosine(const at::Tensor& a, const at::Tensor& b, const ProbeBatch& batch,
                         Heads* heads, DocumentMean& mean) {
    at::Tensor cosines = cosine(a, b);  // [N] or [N, heads]
    if (!heads) cosines = cosines.unsqueeze(1);
    const at::Tensor sums = sum_by_piece(cosines, batch.batch);
    add_column(sums.mean(1, /*keepdim=*/true), 0, batch, mean);
    if (!heads) return;
    for (std::size_t h = 0; h < heads->size(); ++h) {
      add_column(sums, static_cast<std::int64_t>(h), batch, (*heads)[h]);
    }
  }

  const model::Decoder& decoder_;
  ProbeResult result_;
  std::vector<Kept> kept_;
  std::int64_t last_document_ = std::numeric_limits<std::int64_t>::min();
};

}  // namespace

BatchSource store_batches(const data::TokenStore& store, std::vector<std::uint64_t> documents,
                          std::int64_t window, std::int64_t vocab_size, std::int64_t batch_tokens) {
  return [store, documents = std::move(documents), window, vocab_size, batch_tokens,
          next = std::size_t{0}, pieces = std::vector<data::EvaluationPiece>(),
          piece = std::size_t{0}]() mutable -> std::optional<ProbeBatch> {
    std::vector<std::int64_t> tokens, segments, owners;
    while (static_cast<std::int64_t>(tokens.size()) < batch_tokens) {
      if (piece == pieces.size()) {
        if (next == documents.size()) break;
        pieces = data::evaluation_pieces(store, documents[next++], window);
        piece = 0;
        continue;
      }
      const data::EvaluationPiece& taken = pieces[piece++];
      segments.insert(segments.end(), taken.tokens.size(),
                      static_cast<std::int64_t>(owners.size()));
      tokens.insert(tokens.end(), taken.tokens.begin(), taken.tokens.end());
      owners.push_back(static_cast<std::int64_t>(taken.document));
    }
    if (tokens.empty()) return std::nullopt;
    const auto count = static_cast<std::int64_t>(tokens.size());
    return ProbeBatch{model::make_batch(tokens, segments, 1, count, vocab_size), std::move(owners)};
  };
}

BatchSource single_batch(model::Batch batch) {
  std::vector<std::int64_t> documents;
  for (std::size_t p = 0; p < batch.pieces.size(); ++p)
    documents.push_back(static_cast<std::int64_t>(p));
  return [only = std::optional<ProbeBatch>({std::move(batch), std::move(documents)})]() mutable {
    return std::exchange(only, std::nullopt);
  };
}

ProbeResult probe(const model::Decoder& decoder, const BatchSource& batches,
                  const ProbeOptions& options, const ProgressSink& progress,
                  std::int64_t total_tokens) {
  const torch::NoGradGuard no_grad;
  Prober prober(decoder, options);
  std::int64_t done = 0;
  while (const auto batch = batches()) {
    prober.add(*batch);
    done += batch->batch.size();
    if (progress) {
      progress(
          {"probe", static_cast<double>(done), static_cast<double>(total_tokens), "tokens", ""});
    }
  }
  if (done == 0) throw Error("probe", "no document to look at");
  return prober.take();
}

}  // namespace smelt::probe
