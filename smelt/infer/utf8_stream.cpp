// Valid UTF-8 out of bytes that arrive in any portions.
#include "smelt/infer/generate.h"

namespace smelt::infer {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Step {
  std::size_t length = 0;  // bytes to take
  enum { kCharacter, kInvalid, kIncomplete } kind = kCharacter;
};

/// The next character of `bytes` by the table of well-formed sequences (Unicode 15, table 3-7); an
/// invalid step takes the longest start of a character, at least one byte.
Step next_character(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return {1, Step::kCharacter};
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;  // of the second byte
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {1, Step::kInvalid};
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {i, Step::kIncomplete};
    if (at(i) < low || at(i) > high) return {i, Step::kInvalid};
    low = 0x80;
    high = 0xBF;
  }
  return {length, Step::kCharacter};
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string complete;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Step step = next_character(rest);
    if (step.kind == Step::kIncomplete) break;
    complete += step.kind == Step::kCharacter ? rest.substr(0, step.length) : kReplacement;
    rest.remove_prefix(step.length);
  }
  held_ = std::string(rest);
  return complete;
}

std::string Utf8Stream::finish() {
  const bool incomplete = !held_.empty();
  held_.clear();
  return incomplete ? std::string(kReplacement) : std::string();
}

}  // namespace smelt::infer
