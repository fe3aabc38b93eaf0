// What a model's layers do, and what the second visit does differently (paper section on the second
// visit).
//
// Figures are means over tokens with standard errors over documents: attention sink, norms and
// cosines of the residual writes, expert overlap between visits, cosine of a layer's quantities on
// two visits, overlap of the tokens attended to.  A Baseline gets all those that need no second
// visit.
//
//   auto batches = store_batches(store, documents, 512);
//   ProbeResult result = probe(decoder, batches, {});
//   result.sink[e][head].mean();   // attention mass on the document's first token, queries after
//   the first
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "smelt/core/fields.h"
#include "smelt/core/json.h"
#include "smelt/core/progress.h"
#include "smelt/data/token_store.h"
#include "smelt/model/decoder.h"
#include "smelt/probe/document_mean.h"

namespace smelt::probe {

/// A batch and, for each of its pieces, the document it belongs to (for the standard errors).
struct ProbeBatch {
  model::Batch batch;
  std::vector<std::int64_t> documents;  // per piece; pieces of one document follow each other
};

/// The next batch, or nothing at the end.
using BatchSource = std::function<std::optional<ProbeBatch>()>;

/// Documents of a store in windows (data/windows.h), `batch_tokens` or a little more at a time.
BatchSource store_batches(const data::TokenStore& store, std::vector<std::uint64_t> documents,
                          std::int64_t window, std::int64_t vocab_size,
                          std::int64_t batch_tokens = 4096);
/// One batch; every piece is a document.
BatchSource single_batch(model::Batch batch);

struct ProbeOptions {
  bool writes = true;    // write norms, ratios, the cosine matrix, cross-visit cosines
  bool attended = true;  // top-1, top-8 and distribution overlap, and the head control

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"writes", "norms and cosines of the residual writes"}, self.writes);
    visit(Field{"attended", "overlap of the tokens attended to"}, self.attended);
  }
};

using Heads = std::vector<DocumentMean>;
using Matrix = std::vector<std::vector<DocumentMean>>;  // [executed][executed]

/// Kinds of residual write.
inline constexpr const char* kWriteNames[] = {"update", "attn_write", "moe_write"};
/// Norms per executed layer: the writes, the outputs of both RMSNorms, and writes relative to the
/// stream.
inline constexpr const char* kNormNames[] = {
    "update", "attn_write", "moe_write", "X", "Y", "rel_attn_write", "rel_moe_write", "rel_update"};
inline constexpr std::size_t kWrites = 3, kNorms = 8, kPlainNorms = 5;

/// Overlap of two attention maps, per head.
struct Attended {
  Heads top1;  // share of queries (position >= 1) with the same most attended key
  Heads topk;  // mean share of the 8 most attended keys in common, queries with position >= 8
  Heads dist;  // mean of Σ_j min(P_a[j], P_b[j]), queries with position >= 1
};

/// One physical layer of the span on two of its visits, a < b.
struct LayerPair {
  std::int64_t layer = 0;  // physical, 0-based
  std::size_t executed_a = 0, executed_b = 0;
  DocumentMean expert_overlap;      // experts in common, 0 … k
  DocumentMean norm_ratio[kNorms];  // mean on b / mean on a
  DocumentMean norm_ratio_per_token[kPlainNorms];
  DocumentMean write_cosine[kWrites];
  DocumentMean cosine_x, cosine_o;  // normed attention input; output of o_proj
  Heads cosine_q, cosine_k, cosine_v, cosine_pv;
  DocumentMean cosine_q_mean, cosine_k_mean, cosine_v_mean, cosine_pv_mean;
  Attended attended;
};

struct VisitPair {
  std::int64_t visit_a = 1, visit_b = 2;
  std::vector<LayerPair> layers;  // of the span, ascending
  DocumentMean
      other_pairs_cosine[kWrites];  // visit a of one layer with visit b of another, mean of all
};

struct ProbeResult {
  arch::LoopSchedule executed;
  ProbeOptions options;
  std::int64_t tokens = 0;  // positions looked at
  std::int64_t documents = 0;
  double expert_chance = 0;                      // k² / E: expected overlap of two random choices
  std::vector<Heads> sink;                       // [executed][head], queries with position >= 1
  std::vector<Heads> sink_including_first;       // all queries
  std::vector<std::vector<DocumentMean>> norms;  // [executed][kNormNames]; empty without `writes`
  std::vector<Matrix> write_cosine;              // [kWriteNames]; empty without `writes`
  std::vector<Attended> head_control;            // [executed]: head h with head h + heads/2
  std::vector<VisitPair> pairs;                  // (1,2), (1,3), (2,3), …; none for a Baseline
};

/// Streams over the batches; memory does not grow with their number.
ProbeResult probe(const model::Decoder& decoder, const BatchSource& batches,
                  const ProbeOptions& options = {}, const ProgressSink& progress = {},
                  std::int64_t total_tokens = 0);

/// "smelt.probe/1"; undefined values are null, layers 1-based.
Json to_json(const ProbeResult& result);
/// Tables for people.
std::string text(const ProbeResult& result);

}  // namespace smelt::probe
