#include "smelt/law/rows.h"

#include <algorithm>
#include <charconv>

#include "smelt/core/error.h"
#include "smelt/core/file.h"
#include "smelt/core/json.h"

namespace smelt::law {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<double> as_number(const std::string& text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::size_t column_of(Csv& csv, const std::string& name) {
  if (const auto at = csv.find(name)) return *at;
  csv.header.push_back(name);
  for (auto& row : csv.rows) row.emplace_back();
  return csv.header.size() - 1;
}

void add_object(Csv& csv, const Json& object, const std::string& name, std::size_t line) {
  const std::string where = name + ":" + std::to_string(line);
  if (!object.is_object()) throw Error("law", "expected a JSON object per row", where);
  std::vector<std::string> row(csv.header.size());
  for (const auto& [key, value] : object.items()) {
    const std::size_t at = column_of(csv, key);
    row.resize(csv.header.size());
    if (value.is_structured()) {
      throw Error("law", "key \"" + key + "\": expected a number, text or true/false", where);
    }
    if (value.is_null()) continue;
    row[at] = value.is_string()         ? value.get<std::string>()
              : value.is_number_float() ? number_text(value.get<double>())
                                        : value.dump();
  }
  csv.rows.push_back(std::move(row));
  csv.lines.push_back(line);
}

/// One array of objects, or an object per line.
Csv parse_json_rows(const std::string& text, const std::string& name) {
  Csv csv;
  csv.name = name;
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '[') {
    std::size_t index = 0;
    for (const Json& object : parse_json(text, name)) add_object(csv, object, name, ++index);
    return csv;
  }
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    ++line;
    if (part.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = name + ":" + std::to_string(line);
    Json object;
    try {
      object = parse_json(part, where);
    } catch (const Error&) {
      throw Error("law", "expected one JSON object on this line", where);
    }
    add_object(csv, object, name, line);
  }
  return csv;
}

Csv read_one(const std::filesystem::path& file) {
  std::string text = read_file(file);
  const auto first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  const bool json = file.extension() == ".json" || file.extension() == ".jsonl" ||
                    (first != std::string::npos && (text[first] == '{' || text[first] == '['));
  return json ? parse_json_rows(text, file.string()) : parse_csv(text, file.string());
}

bool holds(const Csv& rows, std::size_t row, std::size_t column, const Condition& condition) {
  if (!condition.number) {
    const bool same = rows.rows[row][column] == condition.value;
    return condition.op == "==" ? same : !same;
  }
  const double cell = rows.number(row, column), value = *condition.number;
  if (condition.op == ">=") return cell >= value;
  if (condition.op == "<=") return cell <= value;
  if (condition.op == ">") return cell > value;
  if (condition.op == "<") return cell < value;
  return condition.op == "==" ? cell == value : cell != value;
}

}  // namespace

Csv read_rows(const std::vector<std::filesystem::path>& files) {
  if (files.empty()) throw Error("law", "no file to read");
  if (files.size() == 1) return read_one(files.front());
  Csv all;
  for (const auto& file : files) {
    const Csv one = read_one(file);
    all.name += (all.name.empty() ? "" : ", ") + one.name;
    std::vector<std::size_t> to;
    for (const std::string& name : one.header) to.push_back(column_of(all, name));
    for (const auto& from : one.rows) {
      std::vector<std::string> row(all.header.size());
      for (std::size_t c = 0; c < from.size(); ++c) row[to[c]] = from[c];
      all.rows.push_back(std::move(row));
    }
  }
  // Rows lose their lines: messages name the files.
  return all;
}

Condition parse_condition(const std::string& text) {
  for (const char* op : {">=", "<=", "==", "!=", ">", "<", "="}) {
    const std::size_t at = text.find(op);
    if (at == std::string::npos) continue;
    Condition condition;
    condition.text = text;
    condition.column = trimmed(text.substr(0, at));
    condition.op = std::string(op) == "=" ? "==" : op;
    condition.value = trimmed(text.substr(at + std::string(op).size()));
    condition.number = as_number(condition.value);
    if (condition.column.empty() || condition.value.empty()) break;
    if (!condition.number && condition.op != "==" && condition.op != "!=") {
      throw Error("law",
                  "where: expected a number behind " + condition.op + " in \"" + text + "\"");
    }
    return condition;
  }
  throw Error("law", "where: expected COLUMN OP VALUE with OP one of >= <= > < == !=, got \"" +
                         text + "\"");
}

std::size_t keep_where(Csv& rows, const std::vector<Condition>& conditions) {
  std::vector<std::size_t> columns;
  for (const Condition& condition : conditions) columns.push_back(rows.column(condition.column));
  Csv kept = rows;
  kept.rows.clear();
  kept.lines.clear();
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    bool keep = true;
    for (std::size_t c = 0; keep && c < conditions.size(); ++c) {
      keep = holds(rows, row, columns[c], conditions[c]);
    }
    if (!keep) continue;
    kept.rows.push_back(rows.rows[row]);
    if (row < rows.lines.size()) kept.lines.push_back(rows.lines[row]);
  }
  const std::size_t dropped = rows.rows.size() - kept.rows.size();
  rows = std::move(kept);
  return dropped;
}

}  // namespace smelt::law
