#include "smelt/core/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "smelt/core/error.h"
#include "smelt/core/file.h"

namespace smelt {
namespace {

struct Record {
  std::vector<std::string> cells;
  std::size_t line = 0;
  bool quoted = false;
};

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

/// Splits a whole file into records; a quoted cell may hold commas, quotes ("") and line ends.
std::vector<Record> split_records(std::string_view text, const std::string& name) {
  if (const auto zero = text.find('\0'); zero != std::string_view::npos) {
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(zero), '\n');
    throw Error("core", "expected text in UTF-8, found a zero byte (UTF-16, or not text)",
                name + ":" + std::to_string(line));
  }
  std::vector<Record> records;
  std::size_t at = 0, line = 1;
  while (at < text.size()) {
    Record record;
    record.line = line;
    bool more = true;
    while (more) {
      std::string cell;
      if (at < text.size() && text[at] == '"') {
        const std::size_t opened = line;
        record.quoted = true;
        ++at;
        while (true) {
          if (at >= text.size()) {
            throw Error("core", "a quoted cell is never closed",
                        name + ":" + std::to_string(opened));
          }
          if (text[at] == '"') {
            if (at + 1 < text.size() && text[at + 1] == '"') {
              cell += '"';
              at += 2;
              continue;
            }
            ++at;
            break;
          }
          if (text[at] == '\n') ++line;
          cell += text[at++];
        }
        const std::size_t end = std::min(text.find_first_of(",\n", at), text.size());
        if (!trimmed(text.substr(at, end - at)).empty()) {
          throw Error("core", "text after the closing quote of a cell",
                      name + ":" + std::to_string(line));
        }
        at = end;
      } else {
        const std::size_t end = std::min(text.find_first_of(",\n", at), text.size());
        cell = trimmed(text.substr(at, end - at));
        at = end;
      }
      record.cells.push_back(std::move(cell));
      more = at < text.size() && text[at] == ',';
      if (at < text.size()) ++at;
    }
    ++line;
    const bool blank = record.cells.size() == 1 && record.cells[0].empty() && !record.quoted;
    if (!blank) records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

std::optional<std::size_t> Csv::find(std::string_view column) const {
  const auto found = std::find(header.begin(), header.end(), column);
  if (found == header.end()) return std::nullopt;
  return static_cast<std::size_t>(found - header.begin());
}

std::size_t Csv::column(std::string_view column) const {
  if (const auto found = find(column)) return *found;
  throw Error("core",
              "no column \"" + std::string(column) + "\"; there are " + join_choices(header), name);
}

std::string Csv::where(std::size_t row) const {
  return row < lines.size() ? name + ":" + std::to_string(lines[row]) : name;
}

double Csv::number(std::size_t row, std::size_t column) const {
  std::string cell = rows[row][column];
  cell.erase(std::remove(cell.begin(), cell.end(), ','), cell.end());
  double value = 0;
  const char* first = cell.data() + (cell.starts_with('+') && !cell.starts_with("+-") ? 1 : 0);
  const auto [end, code] = std::from_chars(first, cell.data() + cell.size(), value);
  if (cell.empty() || code != std::errc{} || end != cell.data() + cell.size() ||
      !std::isfinite(value)) {
    throw Error("core",
                "column \"" + header[column] + "\": expected a finite number, got \"" +
                    clipped(rows[row][column]) + "\"",
                where(row));
  }
  return value;
}

Csv parse_csv(std::string_view text, std::string name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<Record> records = split_records(text, name);
  if (records.empty()) throw Error("core", "the file is empty, expected a header row", name);
  Csv csv;
  csv.name = std::move(name);
  csv.header = std::move(records.front().cells);
  Problems problems("core", csv.name);
  for (auto name_at = csv.header.begin(); name_at != csv.header.end(); ++name_at) {
    if (!name_at->empty() && std::find(csv.header.begin(), name_at, *name_at) != name_at) {
      problems.add("column \"" + *name_at + "\" appears twice");
    }
  }
  for (std::size_t i = 1; i < records.size(); ++i) {
    if (records[i].cells.size() != csv.header.size()) {
      problems.add("expected " + std::to_string(csv.header.size()) + " columns, got " +
                       std::to_string(records[i].cells.size()),
                   csv.name + ":" + std::to_string(records[i].line));
      continue;
    }
    csv.rows.push_back(std::move(records[i].cells));
    csv.lines.push_back(records[i].line);
  }
  problems.throw_if_any();
  return csv;
}

Csv read_csv(const std::filesystem::path& file) {
  return parse_csv(read_file(file), file.string());
}

std::string to_text(const Csv& csv) {
  std::string out;
  // Quoted too where reading would trim the cell or skip the line as blank.
  const auto plain = [](const std::vector<std::string>& cells, const std::string& cell) {
    return cell.find_first_of(",\"\n\r") == std::string::npos && cell == trimmed(cell) &&
           !(cells.size() == 1 && cell.empty());
  };
  const auto add = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) out += ',';
      if (plain(cells, cells[i])) {
        out += cells[i];
        continue;
      }
      out += '"';
      for (const char c : cells[i]) out += c == '"' ? std::string("\"\"") : std::string(1, c);
      out += '"';
    }
    out += '\n';
  };
  add(csv.header);
  for (const auto& row : csv.rows) add(row);
  return out;
}

std::string number_text(double value) {
  char buffer[40];
  const auto [end, code] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return code == std::errc{} ? std::string(buffer, end) : std::string("nan");
}

}  // namespace smelt
