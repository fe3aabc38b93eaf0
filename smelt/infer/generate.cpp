#include "smelt/infer/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "smelt/core/error.h"
#include "smelt/infer/kv_cache.h"

namespace smelt::infer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::int32_t most_probable(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void check_input(const model::Decoder& decoder, const data::Tokenizer& tokenizer,
                 const GenerateOptions& options) {
  Problems problems("infer");
  check_fields(options, problems);
  if (tokenizer.vocab_size() > decoder.config.vocab_size) {
    problems.add(fmt::format("the tokenizer has {} pieces, the model a vocabulary of {}",
                             tokenizer.vocab_size(), decoder.config.vocab_size));
  }
  problems.throw_if_any();
}

/// Next token from the hidden state of the last position.
std::int32_t draw(const model::Decoder& decoder, const at::Tensor& hidden, std::int64_t vocabulary,
                  const GenerateOptions& options, double uniform) {
  const at::Tensor logits = model::logits(decoder, hidden.narrow(0, hidden.size(0) - 1, 1))
                                .reshape({-1})
                                .to(at::kCPU, at::kFloat)
                                .contiguous();
  return sample({logits.data_ptr<float>(), static_cast<std::size_t>(logits.numel())}, vocabulary,
                options, uniform);
}

}  // namespace

std::int32_t sample(std::span<const float> logits, std::int64_t vocabulary,
                    const GenerateOptions& options, double uniform) {
  const auto count = std::min(logits.size(), static_cast<std::size_t>(vocabulary));
  const auto used = logits.first(count);
  for (const float logit : used) {
    if (!std::isfinite(logit)) throw Error("infer", "the model gave a logit that is not finite");
  }
  if (options.temperature <= 0) return most_probable(used);

  std::vector<std::int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const float la = used[static_cast<std::size_t>(a)], lb = used[static_cast<std::size_t>(b)];
    return la != lb ? la > lb : a < b;
  });
  const double top = used[static_cast<std::size_t>(order[0])];
  std::vector<double> weight(count);
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    weight[i] = std::exp((used[static_cast<std::size_t>(order[i])] - top) / options.temperature);
    total += weight[i];
  }
  std::size_t kept = 0;
  double mass = 0;
  while (kept < count && (kept == 0 || mass < options.top_p * total)) mass += weight[kept++];
  double left = uniform * mass;
  for (std::size_t i = 0; i < kept; ++i) {
    left -= weight[i];
    if (left < 0) return order[i];
  }
  return order[kept - 1];
}

Generation generate(const model::Decoder& decoder, const data::Tokenizer& tokenizer,
                    std::string_view prompt, const GenerateOptions& options,
                    const TextSink& on_text) {
  check_input(decoder, tokenizer, options);
  Generation out;
  // Without a BOS, EOS stands in its place, as in the documents of a store.
  if (const auto first = tokenizer.bos() ? tokenizer.bos() : tokenizer.eos()) {
    out.prompt_tokens.push_back(*first);
  }
  const auto encoded = tokenizer.encode(prompt);
  out.prompt_tokens.insert(out.prompt_tokens.end(), encoded.begin(), encoded.end());
  if (out.prompt_tokens.empty()) {
    throw Error("infer", "the prompt is empty and the tokenizer has no BOS to start from");
  }

  const auto prompt_length = static_cast<std::int64_t>(out.prompt_tokens.size());
  KvCache cache(decoder.config, prompt_length + std::min<std::int64_t>(options.max_tokens, 512));
  auto start = Clock::now();
  at::Tensor hidden = forward_cached(decoder, cache, out.prompt_tokens);
  out.prefill_seconds = seconds_since(start);

  const Philox random(options.seed, "generate");
  const torch::NoGradGuard no_grad;
  Utf8Stream stream;
  const auto emit = [&](const std::string& piece) {
    out.text += piece;
    return piece.empty() || !on_text || on_text(piece);
  };
  start = Clock::now();
  for (std::int64_t i = 0; i < options.max_tokens; ++i) {
    const double uniform = random.uniform(static_cast<std::uint64_t>(prompt_length + i));
    const std::int32_t next = draw(decoder, hidden, tokenizer.vocab_size(), options, uniform);
    if (tokenizer.eos() && next == *tokenizer.eos()) {
      out.stop = Stop::kEos;
      break;
    }
    out.tokens.push_back(next);
    if (!emit(stream.push(tokenizer.bytes_of(next)))) {
      out.stop = Stop::kCancelled;
      break;
    }
    if (i + 1 < options.max_tokens) hidden = forward_cached(decoder, cache, {&next, 1});
  }
  emit(stream.finish());
  out.decode_seconds = seconds_since(start);
  return out;
}

}  // namespace smelt::infer
