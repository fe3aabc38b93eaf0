#include "smelt/report/table.h"

#include <fmt/format.h>

#include "smelt/core/error.h"
#include "smelt/report/html.h"
#include "smelt/report/study_data.h"

namespace smelt::report {
namespace {

using Rows = std::vector<const std::vector<Cell>*>;

std::string one_table(const DataTable& table, const Rows& rows, std::size_t first_column,
                      const std::string& caption, std::size_t most_rows) {
  const std::size_t step = rows.size() <= most_rows ? 1 : (rows.size() + most_rows - 1) / most_rows;
  std::string html = "<div class=\"scroll\" tabindex=\"0\"><table><caption>" + escape(caption);
  if (step > 1) {
    html +=
        fmt::format(" <small>(one row in {} of {}; the CSV has all)</small>", step, rows.size());
  }
  html += "</caption><thead><tr>";
  for (std::size_t c = first_column; c < table.columns.size(); ++c) {
    const Column& column = table.columns[c];
    html += fmt::format("<th scope=\"col\"{}>{}</th>", column.number ? " class=\"n\"" : "",
                        escape(column.label));
  }
  html += "</tr></thead><tbody>\n";
  for (std::size_t r = 0; r < rows.size(); r += step) {
    html += "<tr>";
    for (std::size_t c = first_column; c < table.columns.size(); ++c) {
      html += fmt::format("<td{}>{}</td>", table.columns[c].number ? " class=\"n\"" : "",
                          escape((*rows[r])[c].shown));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace

void DataTable::add(std::vector<Cell> cells) {
  if (cells.size() != columns.size()) {
    throw Error("report", fmt::format("table {}: {} cells for {} columns", name, cells.size(),
                                      columns.size()));
  }
  rows.push_back(std::move(cells));
}

Cell text_cell(std::string text) {
  std::string shown = text.empty() ? "–" : text;
  return {std::move(text), std::move(shown)};
}

Cell arm_cell(const std::string& arm) {
  return {arm, arm.empty() ? "–" : arm_name(arm)};
}

Cell number_cell(std::optional<double> value, std::string shown) {
  return {value ? number_text(*value) : "", std::move(shown)};
}

Cell number_cell(std::optional<double> value) {
  return number_cell(value, compact(value));
}

Csv to_csv(const DataTable& table) {
  Csv csv;
  csv.name = table.name + ".csv";
  for (const Column& column : table.columns) csv.header.push_back(column.key);
  for (const auto& row : table.rows) {
    std::vector<std::string> cells;
    for (const Cell& cell : row) cells.push_back(cell.csv);
    csv.rows.push_back(std::move(cells));
  }
  return csv;
}

std::string to_html(const DataTable& table, std::size_t most_rows) {
  if (!table.split) {
    Rows rows;
    for (const auto& row : table.rows) rows.push_back(&row);
    return one_table(table, rows, 0, table.title, most_rows);
  }
  std::vector<std::string> groups;
  for (const auto& row : table.rows) {
    if (groups.empty() || groups.back() != row.front().shown) groups.push_back(row.front().shown);
  }
  std::string html = "<div class=\"tables\">";
  for (const std::string& group : groups) {
    Rows rows;
    for (const auto& row : table.rows) {
      if (row.front().shown == group) rows.push_back(&row);
    }
    html += one_table(table, rows, 1, group, most_rows);
  }
  return html + "</div>\n";
}

std::string download_link(const DataTable& table) {
  std::string numbers;
  for (const Column& column : table.columns) {
    if (column.number) numbers += (numbers.empty() ? "" : " ") + column.key;
  }
  return fmt::format(
      "<a class=\"csv\" download=\"{0}.csv\" data-table=\"{0}\" data-numbers=\"{1}\" href=\"{2}\">"
      "{0}.csv</a>",
      escape(table.name), escape(numbers), csv_link(to_text(to_csv(table))));
}

}  // namespace smelt::report
