// Draws by hand, UTF-8 at every seam, and whole generations against the full forward pass.
#include "smelt/infer/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "smelt/infer/kv_cache.h"
#include "smelt/model/weights.h"
#include "tests/data/helpers.h"

namespace smelt::infer {
namespace {

using ::testing::HasSubstr;

std::int32_t draw(const std::vector<float>& logits, const GenerateOptions& options, double uniform,
                  std::int64_t vocabulary = 1000) {
  return sample(logits, vocabulary, options, uniform);
}

TEST(Sample, GreedyTakesTheLowestOfEqualIds) {
  EXPECT_EQ(draw({1, 3, 3, 2}, {.temperature = 0}, 0.9), 1);
  EXPECT_EQ(draw({1, 3, 4, 9}, {.temperature = 0}, 0.9, 3), 2);  // row 3 is padding
}

TEST(Sample, DrawsByProbabilityWithinTopP) {
  const std::vector<float> logits = {std::log(0.2f), std::log(0.5f), std::log(0.3f)};
  const GenerateOptions all{.temperature = 1, .top_p = 1};
  EXPECT_EQ(draw(logits, all, 0.49), 1);
  EXPECT_EQ(draw(logits, all, 0.51), 2);
  EXPECT_EQ(draw(logits, all, 0.81), 0);
  EXPECT_EQ(draw(logits, all, 0.9999999), 0);
  // 0.5 + 0.3 hold 0.7; the border between them is 0.5 / 0.8 = 0.625.
  const GenerateOptions nucleus{.temperature = 1, .top_p = 0.7};
  EXPECT_EQ(draw(logits, nucleus, 0.62), 1);
  EXPECT_EQ(draw(logits, nucleus, 0.63), 2);
  EXPECT_EQ(draw(logits, nucleus, 0.9999999), 2);
  // Temperature 1/2 squares the probabilities: 0.25 / (0.25 + 0.09 + 0.04) = 0.658.
  EXPECT_EQ(draw(logits, {.temperature = 0.5, .top_p = 1}, 0.65), 1);
  EXPECT_EQ(draw(logits, {.temperature = 0.5, .top_p = 1}, 0.67), 2);
  // The smallest set has one token at least; rows of padding take no part.
  EXPECT_EQ(draw(logits, {.temperature = 1, .top_p = 1e-6}, 0.999), 1);
  EXPECT_EQ(draw({0, 0, 50}, all, 0.999, 2), 1);
}

TEST(Sample, RefusesWhatIsNotFinite) {
  EXPECT_THROW(draw({1, NAN}, {}, 0.5), Error);
  EXPECT_EQ(draw({1, NAN}, {.temperature = 0}, 0.5, 1), 0);
}

TEST(Utf8Stream, HoldsBackIncompleteCharacters) {
  const std::string text = "aé€😀z";
  Utf8Stream stream;
  std::string joined;
  for (const char byte : text) {
    const std::string piece = stream.push(std::string(1, byte));
    EXPECT_TRUE(piece.empty() || piece.size() > 1 || static_cast<unsigned char>(piece[0]) < 0x80);
    joined += piece;
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, ReplacesBytesThatCannotBecomeACharacter) {
  const std::string bad = "\xEF\xBF\xBD";
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xFF"
                        "b"),
            "a" + bad + "b");
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.push("x"), bad + "x");  // the start of a character, then something else
  EXPECT_EQ(stream.push("\xED\xA0\x80"), bad + bad + bad);  // a surrogate
  EXPECT_EQ(stream.push("\xC0\x80"), bad + bad);            // overlong
  EXPECT_EQ(stream.push("\xF0\x9F"), "");
  EXPECT_EQ(stream.finish(), bad);
}

/// A tokenizer of 300 pieces and a random looped model with 8 rows of padding behind them.
struct Model {
  data::Tokenizer tokenizer;
  model::Decoder decoder;
};

const Model& model_of_test() {
  static const Model made = [] {
    const std::string text = data::sample_text(4000, 1);
    std::size_t at = 0;
    const data::LineSource lines = [&]() -> std::optional<std::string_view> {
      if (at >= text.size()) return std::nullopt;
      const auto end = std::min(text.find('\n', at), text.size() - 1);
      const std::string_view line = std::string_view(text).substr(at, end + 1 - at);
      at = end + 1;
      return line;
    };
    auto tokenizer = data::train_tokenizer(lines, 300);
    auto config = model::load_decoder(SMELT_TEST_DATA "/cases/loop_half").config;
    config.vocab_size = tokenizer.vocab_size() + 8;
    return Model{tokenizer, model::init_decoder(config, 5)};
  }();
  return made;
}

TEST(Generate, GreedyEqualsTheFullForward) {
  const auto& [tokenizer, decoder] = model_of_test();
  std::string streamed;
  const auto out = generate(decoder, tokenizer, "the loop", {.max_tokens = 12, .temperature = 0},
                            [&](std::string_view piece) {
                              streamed += piece;
                              return true;
                            });
  ASSERT_EQ(out.prompt_tokens[0], *tokenizer.bos());
  EXPECT_EQ(streamed, out.text);
  const torch::NoGradGuard no_grad;
  std::vector<std::int64_t> tokens(out.prompt_tokens.begin(), out.prompt_tokens.end());
  for (const std::int32_t id : out.tokens) {
    const auto batch = model::make_batch(tokens, decoder.config.vocab_size);
    const auto logits = model::logits(decoder, model::forward(decoder, batch).hidden);
    const auto last = logits[batch.size() - 1].narrow(0, 0, tokenizer.vocab_size());
    EXPECT_EQ(id, last.argmax().item<std::int64_t>());
    tokens.push_back(id);
  }
  EXPECT_EQ(out.tokens.size(), 12u);
  EXPECT_EQ(out.stop, Stop::kLength);
}

TEST(Generate, RepeatsWithItsSeedAndStaysInTheTokenizer) {
  const auto& [tokenizer, decoder] = model_of_test();
  const GenerateOptions options{.max_tokens = 40, .temperature = 5, .top_p = 1, .seed = 3};
  const auto a = generate(decoder, tokenizer, "a model", options);
  const auto b = generate(decoder, tokenizer, "a model", options);
  EXPECT_EQ(a.tokens, b.tokens);
  auto other = options;
  other.seed = 4;
  EXPECT_NE(a.tokens, generate(decoder, tokenizer, "a model", other).tokens);
  for (const std::int32_t id : a.tokens) EXPECT_LT(id, tokenizer.vocab_size());
  // A shorter generation is the beginning of a longer one.
  auto shorter = options;
  shorter.max_tokens = 10;
  const auto c = generate(decoder, tokenizer, "a model", shorter);
  EXPECT_TRUE(std::equal(c.tokens.begin(), c.tokens.end(), a.tokens.begin()));
}

TEST(Generate, StopsAtEosAndWhenTold) {
  const auto& [tokenizer, decoder] = model_of_test();
  const auto first = generate(decoder, tokenizer, "of", {.max_tokens = 0});
  KvCache cache(decoder.config, 64);
  const at::Tensor hidden = forward_cached(decoder, cache, first.prompt_tokens);
  model::Decoder ends = decoder;  // the prompt's last state points at EOS
  ends.head = at::zeros_like(decoder.head);
  ends.head[*tokenizer.eos()].copy_(hidden[hidden.size(0) - 1]);
  const auto out = generate(ends, tokenizer, "of", {.temperature = 0});
  EXPECT_EQ(out.stop, Stop::kEos);
  EXPECT_TRUE(out.tokens.empty());
  EXPECT_EQ(out.text, "");

  const auto cancelled = generate(decoder, tokenizer, "of", {.max_tokens = 100, .temperature = 0},
                                  [](std::string_view) { return false; });
  EXPECT_EQ(cancelled.stop, Stop::kCancelled);
  EXPECT_LT(cancelled.tokens.size(), 100u);
}

TEST(Generate, NamesWhatIsWrong) {
  const auto& [tokenizer, decoder] = model_of_test();
  const auto small = model::load_decoder(SMELT_TEST_DATA "/cases/baseline");
  EXPECT_THAT(data::error_of([&] { generate(small, tokenizer, "x", {}); }),
              HasSubstr("the tokenizer has 300 pieces, the model a vocabulary of 40"));
  EXPECT_THAT(data::error_of([&] { generate(decoder, tokenizer, "x", {.top_p = 2}); }),
              HasSubstr("top_p: expected"));
}

}  // namespace
}  // namespace smelt::infer
