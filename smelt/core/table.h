// Plain-text tables for terminals: columns aligned, numbers to the right.
#pragma once

#include <string>
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
/// Seconds as "45 s", "3 min 20 s" or "2 h 05 min".
std::string duration_text(double seconds);

}  // namespace smelt
