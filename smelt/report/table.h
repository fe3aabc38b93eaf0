// A table behind a plot: full precision in its CSV, readable digits on the page.
//
//   DataTable table{"gaps", "Loss gap per cell", {{"cell", "cell"}, {"gap", "gap (nats)", true}},
//   {}}; table.add({text_cell("tiny"), number_cell(0.0213, with_sign(0.0213, 4))});
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "smelt/core/csv.h"

namespace smelt::report {

struct Cell {
  std::string csv;    // as written to the file; "" = nothing
  std::string shown;  // as read on the page (not yet escaped)
};

struct Column {
  std::string key;    // header of the CSV
  std::string label;  // header on the page, with its unit
  bool number = false;
};

struct DataTable {
  std::string name;  // file stem, and id on the page
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  bool split = false;  // on the page: one table per value of the first column

  void add(std::vector<Cell> cells);
};

Cell text_cell(std::string text);
/// "baseline" in the CSV, "Baseline" on the page.
Cell arm_cell(const std::string& arm);
/// `shown` is the text on the page; the CSV holds every digit.
Cell number_cell(std::optional<double> value, std::string shown);
/// Shown with four significant digits.
Cell number_cell(std::optional<double> value);

Csv to_csv(const DataTable& table);

/// The <table> (or tables), of at most `most_rows` rows each: a longer one shows every k-th and
/// says so.
std::string to_html(const DataTable& table, std::size_t most_rows = 200);

/// A link that saves the CSV without a network, which is where page.js takes a plot's numbers from
/// too.
std::string download_link(const DataTable& table);

}  // namespace smelt::report
