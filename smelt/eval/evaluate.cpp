#include "smelt/eval/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "smelt/core/error.h"
#include "smelt/data/windows.h"
#include "smelt/model/loss.h"

namespace smelt::eval {
namespace {

/// Scores whole pieces, joined to one long row: the segment mask keeps them apart, and nothing is
/// padded.
class Scorer {
 public:
  Scorer(const model::Decoder& decoder, const data::TokenStore& store, std::int64_t batch_tokens)
      : decoder_(decoder), store_(store), batch_tokens_(batch_tokens) {}

  /// `slot` is the index of the piece's document in `losses`.
  void add(const data::EvaluationPiece& piece, std::size_t slot,
           std::vector<DocumentLoss>& losses) {
    const auto length = static_cast<std::int64_t>(piece.tokens.size());
    if (!tokens_.empty() && static_cast<std::int64_t>(tokens_.size()) + length > batch_tokens_) {
      flush(losses);
    }
    segments_.insert(segments_.end(), piece.tokens.size(),
                     static_cast<std::int64_t>(slots_.size()));
    tokens_.insert(tokens_.end(), piece.tokens.begin(), piece.tokens.end());
    slots_.push_back(slot);
  }

  void flush(std::vector<DocumentLoss>& losses) {
    if (tokens_.empty()) return;
    const auto count = static_cast<std::int64_t>(tokens_.size());
    const model::Batch batch =
        model::make_batch(tokens_, segments_, 1, count, decoder_.config.vocab_size);
    const model::Forward out = model::forward(decoder_, batch);
    const at::Tensor nll = model::token_nll(decoder_, out.hidden, batch.targets)
                               .to(at::kCPU, at::kDouble)
                               .contiguous();
    const double* values = nll.data_ptr<double>();
    for (std::size_t p = 0; p < batch.pieces.size(); ++p) {
      const model::Piece& piece = batch.pieces[p];
      DocumentLoss& loss = losses[slots_[p]];
      const double* begin = values + piece.begin;
      // The last position of a piece predicts nothing.
      for (std::int64_t t = 0; t + 1 < piece.length; ++t) loss.nll_sum += begin[t];
      loss.tokens += piece.length - 1;
      if (piece.length > 1 && loss.tokens == loss.length - 1 &&
          tokens_[static_cast<std::size_t>(piece.begin + piece.length - 1)] == store_.eos()) {
        loss.eos_nll = begin[piece.length - 2];
      }
    }
    tokens_.clear();
    segments_.clear();
    slots_.clear();
  }

 private:
  const model::Decoder& decoder_;
  const data::TokenStore& store_;
  std::int64_t batch_tokens_;
  std::vector<std::int64_t> tokens_, segments_;
  std::vector<std::size_t> slots_;  // per piece
};

void check_input(const model::Decoder& decoder, const data::TokenStore& store,
                 const EvalOptions& options) {
  Problems problems("eval", store.folder().string());
  check_fields(options, problems);
  if (store.vocab_size() > decoder.config.vocab_size) {
    problems.add(fmt::format("the store has token ids below {}, the model a vocabulary of {}",
                             store.vocab_size(), decoder.config.vocab_size));
  }
  if (store.documents_of(options.pool).empty()) {
    problems.add(fmt::format("the {} pool holds no document", enum_name(options.pool)));
  }
  problems.throw_if_any();
}

}  // namespace

EvalResult evaluate(const model::Decoder& decoder, const data::TokenStore& store,
                    const EvalOptions& options, const ProgressSink& progress) {
  check_input(decoder, store, options);
  const torch::NoGradGuard no_grad;
  const auto start = std::chrono::steady_clock::now();
  const auto chosen = select_documents(store, options.pool, options.max_tokens);
  const auto records = store.documents();
  double total = 0, done = 0;
  for (const std::uint64_t d : chosen) total += static_cast<double>(records[d].length);

  std::vector<DocumentLoss> losses;
  losses.reserve(chosen.size());
  Scorer scorer(decoder, store, options.batch_tokens);
  for (const std::uint64_t d : chosen) {
    const data::DocumentRecord& record = records[d];
    losses.push_back({.document = d,
                      .source = record.source,
                      .domain = record.domain,
                      .length = static_cast<std::int64_t>(record.length),
                      .text_bytes = static_cast<std::int64_t>(record.text_bytes),
                      .cut = static_cast<std::int64_t>(record.length) > options.window});
    for (const auto& piece : data::evaluation_pieces(store, d, options.window)) {
      scorer.add(piece, losses.size() - 1, losses);
    }
    done += static_cast<double>(record.length);
    if (progress && done < total) progress({"evaluate", done, total, "tokens", ""});
  }
  scorer.flush(losses);
  EvalResult result = summarize(std::move(losses), store, options);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (progress) {
    progress(
        {"evaluate", total, total, "tokens", fmt::format("loss {:.4f}", result.overall.loss())});
  }
  return result;
}

std::vector<std::uint64_t> select_documents(const data::TokenStore& store, data::Pool pool,
                                            std::int64_t max_tokens) {
  std::vector<std::uint64_t> chosen = store.documents_of(pool);
  if (max_tokens <= 0) return chosen;
  const auto records = store.documents();
  std::sort(chosen.begin(), chosen.end(), [&](std::uint64_t a, std::uint64_t b) {
    return std::pair(records[a].hash, a) < std::pair(records[b].hash, b);
  });
  std::size_t count = 0;
  std::uint64_t tokens = 0;
  while (count < chosen.size() && tokens < static_cast<std::uint64_t>(max_tokens)) {
    tokens += records[chosen[count++]].length;
  }
  chosen.resize(count);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace smelt::eval
