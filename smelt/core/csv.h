// CSV files with a header row (RFC 4180 quoting): reading with errors that name row and column, and
// writing.  Used for endpoint tables and for the tables behind every plot of a report.
//
//   Csv csv = read_csv("endpoints.csv");
//   double loss = csv.number(row, csv.column("loss"));     // throws naming row and column
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt {

struct Csv {
  std::string name;  // file name, for messages
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // each as wide as the header
  std::vector<std::size_t> lines;  // 1-based line of each row; empty when made in memory

  std::optional<std::size_t> find(std::string_view column) const;
  /// Throws Error that lists the columns there are.
  std::size_t column(std::string_view column) const;
  /// "endpoints.csv:17".
  std::string where(std::size_t row) const;
  /// The cell as a finite number (thousands separators accepted); throws Error naming row and
  /// column.
  double number(std::size_t row, std::size_t column) const;
};

/// Handles CRLF, a byte order mark and quoted cells.  Throws one Error with every row whose width
/// is not the header's, or for an empty file.
Csv read_csv(const std::filesystem::path& file);
Csv parse_csv(std::string_view text, std::string name);

/// The text of a CSV, cells quoted where they need it.
std::string to_text(const Csv& csv);

/// Shortest decimal text that reads back as the same double.
std::string number_text(double value);

}  // namespace smelt
