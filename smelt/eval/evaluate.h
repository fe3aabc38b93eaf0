// Token-weighted validation loss of a model: overall, per source, domain and document length.
//
//   loss = Σ nll of the scored tokens / their number, over all documents of a group (never a mean
//   of means)
//
// Documents are cut into windows as data/windows.h says and scored in batches sized by tokens.
// Attention stays within a piece, so a document's result does not depend on its batch mates.
//
//   EvalResult result = evaluate(decoder, store, {.pool = Pool::kValidation, .window = 512});
//   write_file_atomic("eval/step-00000500.json", to_text(to_json(result)));
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "smelt/core/fields.h"
#include "smelt/core/progress.h"
#include "smelt/data/token_store.h"
#include "smelt/model/decoder.h"

namespace smelt::eval {

struct EvalOptions {
  data::Pool pool = data::Pool::kValidation;
  std::int64_t window = 512;
  std::int64_t max_tokens = 0;
  std::int64_t batch_tokens = 8192;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"pool", "documents to score"}, self.pool);
    visit(
        Field{"window", "most tokens a document is scored on at once: the row length trained with",
              "tokens", 2},
        self.window);
    visit(Field{"max_tokens", "score a fixed sample of documents of about this size (0 = all)",
                "tokens", 0},
          self.max_tokens);
    visit(Field{"batch_tokens", "tokens of one forward pass; changes no result beyond rounding",
                "tokens", 1},
          self.batch_tokens);
  }
};

/// What one document cost.
struct DocumentLoss {
  std::uint64_t document = 0;   // index into store.documents()
  std::uint32_t source = 0;     // index into store.sources()
  std::uint32_t domain = 0;     // index into store.domains()
  std::int64_t length = 0;      // tokens in the store, BOS and EOS included
  std::int64_t tokens = 0;      // scored targets
  std::int64_t text_bytes = 0;  // UTF-8 bytes; 0 = not known
  double nll_sum = 0;           // nats, over `tokens`
  double eos_nll = 0;           // the part of nll_sum that the final EOS cost
  bool cut = false;             // longer than the window
};

/// Sums over a set of documents.
struct GroupLoss {
  std::string name{};      // source, domain; "<=64" for lengths
  std::string domain{};    // of a source; empty elsewhere
  std::int64_t up_to = 0;  // of a length bucket: most tokens of a document; 0 = no limit
  std::int64_t documents = 0;
  std::int64_t cut_documents = 0;
  std::int64_t tokens = 0;  // scored targets
  double nll_sum = 0;       // nats

  void add(const DocumentLoss& document);
  /// Nats per token; NaN without tokens.
  double loss() const;
};

struct EvalResult {
  EvalOptions options;
  std::string store_fingerprint;
  std::vector<std::string> source_names, domain_names;  // of the store, by index
  GroupLoss overall;
  std::vector<GroupLoss> sources;       // those with documents, in the store's order
  std::vector<GroupLoss> domains;       // likewise
  std::vector<GroupLoss> lengths;       // document length <= 32, 64, … 4096, and above; all nine
  std::optional<double> nats_per_byte;  // text only (EOS left out); unset when bytes are not known
  double seconds = 0;
  std::vector<DocumentLoss> documents;  // in the store's order
};

/// Throws Error when the pool has no documents or the store's vocabulary is larger than the
/// model's.
EvalResult evaluate(const model::Decoder& decoder, const data::TokenStore& store,
                    const EvalOptions& options, const ProgressSink& progress = {});

/// Documents of a pool, ascending: all of them, or those of smallest content hash that hold
/// `max_tokens` (at least one document).  The same sample for every model.
std::vector<std::uint64_t> select_documents(const data::TokenStore& store, data::Pool pool,
                                            std::int64_t max_tokens);

/// Groups documents that were scored; fills every table of the result.
EvalResult summarize(std::vector<DocumentLoss> documents, const data::TokenStore& store,
                     const EvalOptions& options);

/// "smelt.eval/1", without the documents.
Json to_json(const EvalResult& result);
/// document,source,domain,length,tokens,nll_sum: one row per document, to pair two models.
std::string documents_csv(const EvalResult& result);

}  // namespace smelt::eval
