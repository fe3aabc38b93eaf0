#include "smelt/core/error.h"

#include <algorithm>
#include <numeric>

namespace smelt {
namespace {

std::string format_line(std::string_view folder, std::string_view message, std::string_view where) {
  std::string line = "[" + std::string(folder) + "] " + std::string(message);
  if (!where.empty()) line += " (" + std::string(where) + ")";
  return line;
}

std::string join_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

Error::Error(std::string_view folder, std::string_view message, std::string_view where)
    : std::runtime_error(format_line(folder, message, where)) {}

Error::Error(const std::vector<std::string>& lines) : std::runtime_error(join_lines(lines)) {}

Problems::Problems(std::string folder, std::string where)
    : folder_(std::move(folder)), where_(std::move(where)) {}

void Problems::add(std::string_view message) {
  add(message, where_);
}

void Problems::add(std::string_view message, std::string_view where) {
  lines_.push_back(format_line(folder_, message, where));
  messages_.emplace_back(message);
}

void Problems::throw_if_any() const {
  if (!lines_.empty()) throw Error(lines_);
}

std::string nearest(std::string_view word, const std::vector<std::string>& choices) {
  std::string best;
  // Within two changes any two-letter words are neighbours, so short ones must be closer.
  std::size_t best_distance = (word.size() < 4 ? 1 : std::max<std::size_t>(2, word.size() / 3)) + 1;
  for (const std::string& choice : choices) {
    const std::size_t distance = edit_distance(word, choice);
    if (distance < best_distance) {
      best_distance = distance;
      best = choice;
    }
  }
  return best;
}

std::string clipped(std::string_view text) {
  constexpr std::size_t kMost = 80;
  if (text.size() <= kMost) return std::string(text);
  std::size_t end = kMost;
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  while (end > 0 && continues(end)) --end;
  return std::string(text.substr(0, end)) + "…";
}

std::string join_choices(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += choices[i];
  }
  return text;
}

}  // namespace smelt
