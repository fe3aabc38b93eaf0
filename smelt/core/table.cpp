#include "smelt/core/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace smelt {
namespace {

bool reads_as_number(const std::string& cell) {
  return !cell.empty() && cell.find_first_of("0123456789") != std::string::npos &&
         cell.find_first_not_of("0123456789+-.,eEkMGT %±×") == std::string::npos;
}

/// Columns on the terminal: bytes that do not continue a UTF-8 character.
std::size_t width_of(const std::string& cell) {
  return static_cast<std::size_t>(std::count_if(cell.begin(), cell.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

Table::Table(std::vector<std::string> header) {
  rows_.push_back(std::move(header));
}

void Table::add_row(std::vector<std::string> cells) {
  cells.resize(rows_.front().size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  const std::size_t columns = rows_.front().size();
  std::vector<std::size_t> width(columns, 0);
  std::vector<bool> numeric(columns, rows_.size() > 1);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      width[c] = std::max(width[c], width_of(rows_[r][c]));
      if (r > 0 && !rows_[r][c].empty() && !reads_as_number(rows_[r][c])) numeric[c] = false;
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string padding(width[c] - width_of(row[c]), ' ');
      line += (c > 0 ? "  " : "") + (numeric[c] ? padding + row[c] : row[c] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string with_commas(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  std::string digits = fmt::format("{:.0f}", std::abs(value));
  const bool negative = value < 0 && digits != "0";
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return (negative ? "-" : "") + digits;
}

std::string with_si(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  static constexpr const char* kSuffix[] = {"", "k", "M", "G", "T", "P", "E"};
  double scaled = std::abs(value);
  int step = 0;
  while (scaled >= 999.95 && step < 6) {
    scaled /= 1000;
    ++step;
  }
  const std::string number = step == 0 && scaled == std::floor(scaled)
                                 ? fmt::format("{:.0f}", scaled)
                                 : fmt::format("{:.4g}", scaled);
  return (value < 0 ? "-" : "") + number + kSuffix[step];
}

std::optional<double> parse_count(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value <= 0) return std::nullopt;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  static constexpr std::pair<std::string_view, double> kFactors[] = {
      {"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"B", 1e9}, {"T", 1e12}};
  for (const auto& [name, factor] : kFactors) {
    if (suffix == name) return value * factor;
  }
  return std::nullopt;
}

std::string duration_text(double seconds) {
  if (!(seconds < 1e12)) return "unknown time";
  const auto whole = static_cast<long>(std::lround(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace smelt
