// Continues a text: prefill, then one token at a time from a KV cache.
//
// Temperature 0 takes the most probable token (ties to the lower id).  Otherwise the draw for
// position p is number p of Philox(seed, "generate"), from the smallest set of tokens that holds
// `top_p` of the probability at the given temperature.  Rows of the vocabulary that the tokenizer
// does not have are never drawn.
//
//   Generation out = generate(decoder, tokenizer, "def add(", {.max_tokens = 40},
//   [](std::string_view s) { … });
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/core/fields.h"
#include "smelt/core/philox.h"
#include "smelt/data/tokenizer.h"
#include "smelt/model/decoder.h"

namespace smelt::infer {

struct GenerateOptions {
  std::int64_t max_tokens = 200;
  double temperature = 0.8;
  double top_p = 0.95;
  std::uint64_t seed = 0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"max_tokens", "most tokens to generate", "tokens", 0, 1 << 20}, self.max_tokens);
    visit(
        Field{"temperature", "divides the logits; 0 = always the most probable token", "", 0, 100},
        self.temperature);
    visit(Field{"top_p", "draw from the most probable tokens that hold this probability", "", 1e-6,
                1},
          self.top_p);
    visit(Field{"seed", "seed of the draws"}, self.seed);
  }
};

enum class Stop : std::uint8_t { kEos, kLength, kCancelled };

struct Generation {
  std::vector<std::int32_t> prompt_tokens;  // BOS in front, where the tokenizer has one
  std::vector<std::int32_t> tokens;         // generated, EOS left out
  std::string text;                         // of `tokens`, valid UTF-8
  Stop stop = Stop::kLength;
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

/// Receives pieces of valid UTF-8 as they are complete; return false to stop.
using TextSink = std::function<bool(std::string_view)>;

/// Throws Error when the tokenizer has more pieces than the model, or the prompt gives no token at
/// all.
Generation generate(const model::Decoder& decoder, const data::Tokenizer& tokenizer,
                    std::string_view prompt, const GenerateOptions& options,
                    const TextSink& on_text = {});

/// One draw: logits [V] fp32 on the CPU, of which the first `vocabulary` take part; `uniform` in
/// [0, 1).  Throws Error for a logit that is not finite.
std::int32_t sample(std::span<const float> logits, std::int64_t vocabulary,
                    const GenerateOptions& options, double uniform);

/// Joins the bytes of tokens to valid UTF-8: holds back a character that is not complete, and
/// writes U+FFFD for bytes that cannot become one.
class Utf8Stream {
 public:
  /// The characters that are complete with these bytes.
  std::string push(std::string_view bytes);
  /// What is left, as U+FFFD.
  std::string finish();

 private:
  std::string held_;
};

}  // namespace smelt::infer

template <>
struct smelt::EnumNames<smelt::infer::Stop> {
  static constexpr std::pair<smelt::infer::Stop, const char*> kNames[] = {
      {smelt::infer::Stop::kEos, "eos"},
      {smelt::infer::Stop::kLength, "length"},
      {smelt::infer::Stop::kCancelled, "cancelled"}};
};
