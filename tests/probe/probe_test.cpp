// Every probe against the values of the numerical case (fp64), and against cases that can be done
// by hand.
#include "smelt/probe/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "smelt/core/file.h"
#include "smelt/model/weights.h"

namespace smelt::probe {
namespace {

const std::string kCase = SMELT_TEST_DATA "/cases/probe-loop";

model::Batch case_batch(const std::string& folder, std::int64_t vocab_size) {
  const Json json = read_json(folder + "/tokens.json");
  std::vector<std::int64_t> tokens, segments;
  for (const auto& row : json["tokens"]) tokens.insert(tokens.end(), row.begin(), row.end());
  for (const auto& row : json["segment_ids"])
    segments.insert(segments.end(), row.begin(), row.end());
  const auto rows = static_cast<std::int64_t>(json["tokens"].size());
  return model::make_batch(tokens, segments, rows, static_cast<std::int64_t>(tokens.size()) / rows,
                           vocab_size);
}

ProbeResult probe_case(const std::string& folder, const ProbeOptions& options = {}) {
  const auto decoder = model::load_decoder(folder);
  return probe(decoder, single_batch(case_batch(folder, decoder.config.vocab_size)), options);
}

/// Every number of `expected`, within 2e-4, relative above 1; counts the numbers.
int compare(const Json& expected, const Json& actual, const std::string& path,
            double tolerance = 2e-4) {
  int numbers = 0;
  if (expected.is_object()) {
    for (const auto& [key, value] : expected.items()) {
      EXPECT_TRUE(actual.contains(key)) << path << "/" << key;
      if (actual.contains(key)) numbers += compare(value, actual[key], path + "/" + key, tolerance);
    }
  } else if (expected.is_array()) {
    EXPECT_EQ(expected.size(), actual.size()) << path;
    for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
      numbers += compare(expected[i], actual[i], path + "/" + std::to_string(i), tolerance);
    }
  } else if (expected.is_number()) {
    EXPECT_TRUE(actual.is_number()) << path;
    if (!actual.is_number()) return 0;
    const double e = expected.get<double>(), a = actual.get<double>();
    EXPECT_NEAR(a, e, tolerance * std::max(1.0, std::abs(e))) << path;
    ++numbers;
  } else {
    EXPECT_EQ(expected, actual) << path;
  }
  return numbers;
}

TEST(Probe, EqualsTheNumericalCase) {
  const Json actual = to_json(probe_case(kCase));
  const Json expected = read_json(kCase + "/probes.json");
  EXPECT_GT(compare(expected, actual, ""), 500);
  EXPECT_EQ(actual["schema"], "smelt.probe/1");
  EXPECT_EQ(actual["tokens"], 96);
  // The standard errors are a tree of the same shape.
  for (const char* probe :
       {"sink", "write_norms", "write_cosine_matrix", "head_control", "pairs"}) {
    EXPECT_EQ(actual[probe].flatten().size(), actual["standard_errors"][probe].flatten().size())
        << probe;
  }
}

TEST(Probe, StreamingInPartsChangesNothing) {
  const auto decoder = model::load_decoder(kCase);
  const auto batch = case_batch(kCase, decoder.config.vocab_size);
  std::size_t next = 0;
  const BatchSource one_by_one = [&]() -> std::optional<ProbeBatch> {
    if (next == batch.pieces.size()) return std::nullopt;
    const auto piece = batch.pieces[next];
    const at::Tensor tokens = batch.tokens.narrow(0, piece.begin, piece.length).contiguous();
    return ProbeBatch{
        model::make_batch({tokens.data_ptr<std::int64_t>(), static_cast<std::size_t>(piece.length)},
                          decoder.config.vocab_size),
        {static_cast<std::int64_t>(next++)}};
  };
  const Json parts = to_json(probe(decoder, one_by_one));
  const Json whole = to_json(probe(decoder, single_batch(batch)));
  EXPECT_GT(compare(whole, parts, "", 1e-5), 1000);
}

TEST(Probe, EvenAttentionHasAKnownSinkAndTiesGoToTheLowerIndex) {
  auto decoder = model::load_decoder(kCase);
  for (auto& layer : decoder.layers)
    layer.q_proj = at::zeros_like(layer.q_proj);  // all scores are 0
  std::vector<std::int64_t> document(20);
  for (std::size_t i = 0; i < document.size(); ++i)
    document[i] = static_cast<std::int64_t>(i * 3 % 61);
  const auto result =
      probe(decoder, single_batch(model::make_batch(document, decoder.config.vocab_size)));
  double sum = 0;
  for (int position = 1; position < 20; ++position) sum += 1.0 / (position + 1);
  EXPECT_NEAR(result.sink[0][0].mean(), sum / 19, 1e-6);
  EXPECT_NEAR(result.sink_including_first[3][1].mean(), (sum + 1) / 20, 1e-6);
  for (const auto& layer : result.pairs[0].layers) {
    EXPECT_DOUBLE_EQ(layer.attended.top1[0].mean(), 1);
    EXPECT_DOUBLE_EQ(layer.attended.topk[0].mean(), 1);
    EXPECT_NEAR(layer.attended.dist[0].mean(), 1, 1e-6);
  }
}

TEST(Probe, QueriesWithoutEnoughKeysAreUndefined) {
  const auto decoder = model::load_decoder(kCase);
  const std::vector<std::int64_t> document = {1, 2, 3, 4, 5, 6, 7, 8};  // positions 0 … 7
  const Json json =
      to_json(probe(decoder, single_batch(model::make_batch(document, decoder.config.vocab_size))));
  EXPECT_TRUE(json["pairs"]["1-2"]["layers"][0]["attended"]["topk"][0].is_null());
  EXPECT_TRUE(json["pairs"]["1-2"]["layers"][0]["attended"]["top1"][0].is_number());
  const std::vector<std::int64_t> one = {1};
  const Json short_one =
      to_json(probe(decoder, single_batch(model::make_batch(one, decoder.config.vocab_size))));
  EXPECT_TRUE(short_one["sink"][0][0].is_null());
  EXPECT_NEAR(short_one["sink_including_first"][0][0].get<double>(), 1, 1e-6);
}

TEST(Probe, VisitsMakePairs) {
  const auto baseline = probe_case(SMELT_TEST_DATA "/cases/baseline");
  EXPECT_TRUE(baseline.pairs.empty());
  EXPECT_EQ(baseline.sink.size(), 3u);
  const auto three = probe_case(SMELT_TEST_DATA "/cases/loop_three_visits_one_kv_head");
  ASSERT_EQ(three.pairs.size(), 3u);
  EXPECT_EQ(three.pairs[2].visit_a, 2);
  EXPECT_EQ(three.pairs[2].visit_b, 3);
  EXPECT_EQ(three.pairs[2].layers[1].executed_a, 3u);
  EXPECT_EQ(three.pairs[2].layers[1].executed_b, 5u);
}

TEST(Probe, OptionsLeaveOutWhatIsNotAskedFor) {
  const auto result = probe_case(kCase, {.writes = false, .attended = false});
  const Json json = to_json(result);
  EXPECT_FALSE(json.contains("write_norms"));
  EXPECT_FALSE(json.contains("head_control"));
  const Json expected = read_json(kCase + "/probes.json");
  compare(expected["sink"], json["sink"], "sink");
  EXPECT_NEAR(json["pairs"]["1-2"]["layers"][1]["expert_overlap"].get<double>(),
              expected["pairs"]["1-2"]["layers"][1]["expert_overlap"].get<double>(), 2e-4);
  EXPECT_THAT(text(result), ::testing::HasSubstr("visit 1 against visit 2"));
  const auto decoder = model::load_decoder(kCase);
  const BatchSource nothing = []() -> std::optional<ProbeBatch> { return std::nullopt; };
  EXPECT_THROW(probe(decoder, nothing), Error);
}

}  // namespace
}  // namespace smelt::probe
