// Losses of a small looped model against log-softmax of its logits in fp64, document by document.
#include "smelt/eval/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "smelt/model/weights.h"
#include "tests/data/helpers.h"

namespace smelt::eval {
namespace {

using data::Pool;
using data::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int32_t kBos = 1, kEos = 2;

const model::Decoder& decoder() {
  static const model::Decoder loaded = model::load_decoder(SMELT_TEST_DATA "/cases/loop_half");
  return loaded;
}

struct Document {
  std::vector<std::int32_t> tokens;
  std::uint32_t source = 0;
  std::uint16_t domain = 0;
  Pool pool = Pool::kValidation;
};

data::TokenStore make_store(const TempFolder& folder, const std::vector<Document>& documents,
                            std::int64_t vocab_size = 40, bool with_bytes = true) {
  data::StoreWriter writer(folder / "store", vocab_size, kBos, kEos);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    data::DocumentRecord record;
    record.hash = hash64("document " + std::to_string(i));
    record.text_bytes = with_bytes ? 4 * documents[i].tokens.size() : 0;
    record.source = documents[i].source;
    record.domain = documents[i].domain;
    record.pool = documents[i].pool;
    writer.add(record, documents[i].tokens);
  }
  writer.finish({{"books", "code"}, {"Web", "Code"}}, "not a model", Json::object());
  return data::TokenStore::open(folder / "store");
}

std::vector<std::int32_t> some_tokens(int count, int seed) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    tokens[static_cast<std::size_t>(i)] = 3 + (seed * 7 + i * i * 5 + i) % 37;
  return tokens;
}

/// NLL of tokens 1 … n-1 given those before, alone in the forward pass.
std::vector<double> reference_nll(const std::vector<std::int64_t>& piece) {
  const torch::NoGradGuard no_grad;
  const auto batch = model::make_batch(piece, 40);
  const auto logits = model::logits(decoder(), model::forward(decoder(), batch).hidden);
  const auto log_p = logits.to(at::kDouble).log_softmax(-1);
  std::vector<double> nll;
  for (std::size_t t = 1; t < piece.size(); ++t) {
    nll.push_back(-log_p[static_cast<std::int64_t>(t) - 1][piece[t]].item<double>());
  }
  return nll;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(GroupLoss, IsWeightedByTokensNotAMeanOfMeans) {
  GroupLoss group;
  group.add({.tokens = 1, .nll_sum = 2});
  group.add({.tokens = 9, .nll_sum = 90});
  EXPECT_DOUBLE_EQ(group.loss(), 9.2);
  EXPECT_EQ(group.documents, 2);
  EXPECT_TRUE(std::isnan(GroupLoss{}.loss()));
}

TEST(Evaluate, EqualsLogSoftmaxAndCutsLongDocuments) {
  const TempFolder folder;
  const auto store =
      make_store(folder, {{{5, 6, 7}}, {{8, 9, 10, 11, 12}, 1, 1}, {{20}, 0, 0, Pool::kStable}});
  const auto result = evaluate(decoder(), store, {.window = 4});
  ASSERT_EQ(result.documents.size(), 2u);  // the stable document is not scored

  // BOS 5 6 7 EOS has 5 tokens: two pieces of at most 4.
  const auto& first = result.documents[0];
  EXPECT_EQ(first.tokens, 4);
  EXPECT_EQ(first.length, 5);
  EXPECT_TRUE(first.cut);
  const auto a = reference_nll({kBos, 5, 6, 7}), b = reference_nll({kBos, kEos});
  EXPECT_NEAR(first.nll_sum, sum(a) + sum(b), 1e-5);
  EXPECT_NEAR(first.eos_nll, b.back(), 1e-5);

  const auto c = reference_nll({kBos, 8, 9, 10}), d = reference_nll({kBos, 11, 12, kEos});
  const auto& second = result.documents[1];
  EXPECT_NEAR(second.nll_sum, sum(c) + sum(d), 1e-5);
  EXPECT_EQ(second.tokens, 6);
  EXPECT_NEAR(result.overall.loss(), (first.nll_sum + second.nll_sum) / 10, 1e-12);
  EXPECT_NEAR(*result.nats_per_byte,
              (first.nll_sum + second.nll_sum - b.back() - d.back()) / (4 * 3 + 4 * 5), 1e-5);

  const auto whole = evaluate(decoder(), store, {.window = 5});
  EXPECT_FALSE(whole.documents[0].cut);
  EXPECT_NEAR(whole.documents[0].nll_sum, sum(reference_nll({kBos, 5, 6, 7, kEos})), 1e-5);
}

TEST(Evaluate, GroupsBySourceDomainAndLength) {
  const TempFolder folder;
  // Lengths in the store, BOS and EOS included: 32, 33, 7.
  const auto store =
      make_store(folder, {{some_tokens(30, 1)}, {some_tokens(31, 2), 1, 1}, {some_tokens(5, 3)}});
  const auto result = evaluate(decoder(), store, {.window = 32});
  ASSERT_EQ(result.sources.size(), 2u);
  EXPECT_EQ(result.sources[0].name, "books");
  EXPECT_EQ(result.sources[0].domain, "Web");
  EXPECT_EQ(result.sources[0].documents, 2);
  EXPECT_EQ(result.sources[0].tokens, 31 + 6);
  EXPECT_EQ(result.domains[1].name, "Code");
  EXPECT_NEAR(result.domains[1].nll_sum, result.documents[1].nll_sum, 1e-12);
  ASSERT_EQ(result.lengths.size(), 9u);
  EXPECT_EQ(result.lengths[0].documents, 2);
  EXPECT_EQ(result.lengths[0].cut_documents, 0);
  EXPECT_EQ(result.lengths[1].name, "<=64");
  EXPECT_EQ(result.lengths[1].documents, 1);
  EXPECT_EQ(result.lengths[1].cut_documents, 1);
  EXPECT_EQ(result.lengths[8].name, ">4096");

  const Json json = to_json(result);
  EXPECT_EQ(json["schema"], "smelt.eval/1");
  EXPECT_EQ(json["lengths"][1]["cut"], true);
  EXPECT_TRUE(json["lengths"][5]["loss"].is_null());
  EXPECT_EQ(json["overall"]["documents"], 3);
  EXPECT_THAT(documents_csv(result),
              HasSubstr("document,source,domain,length,tokens,nll_sum\n0,books,Web,32,31,"));
}

TEST(Evaluate, ADocumentDoesNotDependOnItsBatchMates) {
  const TempFolder folder;
  std::vector<Document> documents;
  for (int i = 0; i < 12; ++i) documents.push_back({some_tokens(1 + 3 * i, i)});
  const auto store = make_store(folder, documents);
  const auto alone = evaluate(decoder(), store, {.window = 16, .batch_tokens = 1});
  const auto packed = evaluate(decoder(), store, {.window = 16, .batch_tokens = 4096});
  for (std::size_t i = 0; i < documents.size(); ++i) {
    EXPECT_EQ(alone.documents[i].tokens, packed.documents[i].tokens);
    EXPECT_NEAR(alone.documents[i].nll_sum, packed.documents[i].nll_sum,
                1e-6 * packed.documents[i].nll_sum);
  }
}

TEST(Evaluate, SamplesDocumentsByContentHash) {
  const TempFolder folder;
  std::vector<Document> documents(20, {some_tokens(8, 1)});
  const auto store = make_store(folder, documents);
  EXPECT_EQ(select_documents(store, Pool::kValidation, 0).size(), 20u);
  const auto five = select_documents(store, Pool::kValidation, 45);  // ten tokens each
  EXPECT_EQ(five.size(), 5u);
  EXPECT_TRUE(std::is_sorted(five.begin(), five.end()));
  const auto six = select_documents(store, Pool::kValidation, 55);
  EXPECT_TRUE(std::includes(six.begin(), six.end(), five.begin(), five.end()));
  EXPECT_EQ(select_documents(store, Pool::kValidation, 1).size(), 1u);
  EXPECT_EQ(evaluate(decoder(), store, {.window = 16, .max_tokens = 45}).overall.documents, 5);
}

TEST(Evaluate, NamesWhatIsWrong) {
  const TempFolder folder, large;
  const auto store = make_store(folder, {{{5}}}, 40, false);
  EXPECT_FALSE(evaluate(decoder(), store, {}).nats_per_byte.has_value());
  EXPECT_THAT(data::error_of([&] { evaluate(decoder(), store, {.pool = Pool::kTuning}); }),
              HasSubstr("the tuning pool holds no document"));
  EXPECT_THAT(data::error_of([&] { evaluate(decoder(), store, {.window = 1}); }),
              HasSubstr("window: expected at least 2, got 1"));
  EXPECT_THAT(data::error_of([&] { evaluate(decoder(), make_store(large, {{{5}}}, 41), {}); }),
              HasSubstr("the store has token ids below 41, the model a vocabulary of 40"));
}

}  // namespace
}  // namespace smelt::eval
