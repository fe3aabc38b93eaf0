// Rows of runs out of files: CSV, JSON (an array of objects) and JSON lines, several concatenated,
// and the conditions under which rows are kept.
//
//   Csv rows = read_rows({"a.csv", "b.jsonl"});
//   std::size_t dropped = keep_where(rows, {parse_condition("tokens >= 1e9")});
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "smelt/core/csv.h"

namespace smelt::law {

/// The files below one another; columns are joined by name, and a cell that a file has no column
/// for is empty.  JSON: numbers, strings and booleans; nested values throw.  Throws Error naming
/// file and line.
Csv read_rows(const std::vector<std::filesystem::path>& files);

/// COLUMN OP VALUE with OP one of >= <= > < == !=; a number is compared as one, other text as text
/// (== and != only).
struct Condition {
  std::string text;  // as written
  std::string column, op, value;
  std::optional<double> number;
};
Condition parse_condition(const std::string& text);

/// Removes the rows that a condition does not hold for and returns how many; throws Error for an
/// unknown column, or a cell that is no number where one is compared.
std::size_t keep_where(Csv& rows, const std::vector<Condition>& conditions);

}  // namespace smelt::law
