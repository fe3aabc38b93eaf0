// Plain-text tables for terminals: columns aligned, numbers to the right.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt {

class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void add_row(std::vector<std::string> cells);
  /// One line per row, two spaces between columns; a cell that reads as a number is set to the
  /// right.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// 1234567 → "1,234,567".
std::string with_commas(double value);
/// 1234567 → "1.235M"; three or four significant digits and k, M, G, T.
std::string with_si(double value);
/// "500000", "2e9", "300k", "10M", "1.5B" (or G), "2T": a positive number; nothing for other text.
std::optional<double> parse_count(std::string_view text);
/// Seconds as "45 s", "3 min 20 s" or "2 h 05 min".
std::string duration_text(double seconds);

}  // namespace smelt
