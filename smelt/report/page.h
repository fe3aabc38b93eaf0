// The page while it is written: sections in order, figures with their plots, tables and captions.
//
//   page.section("gap", "The loss gap");
//   page.figure({.name = "gap", .panels = …, .caption = "…", .tables = {…}});
//   std::string html = page.html("title");
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "smelt/core/json.h"
#include "smelt/report/table.h"

namespace smelt::report {

struct Panel {
  std::string title;
  Json spec;  // Vega-Lite; "data": {"table": name, "where": {…}}, colours as "@baseline"
};

enum class Layout { kGrid, kOne };

/// An entry of the key above a figure.
enum class Mark { kDot, kSmallDot, kRing, kSmallRing, kLine, kDashed, kFaint, kBand, kDiamond };
struct KeyEntry {
  Mark mark = Mark::kDot;
  std::string colour;  // a colour of page.css: baseline, smelt, ink, muted
  std::string label;
};

struct Figure {
  std::string name;     // id, and file name of a saved plot
  std::string summary;  // what the plot shows, for readers who do not see it
  std::vector<KeyEntry> key;
  std::vector<Panel> panels;
  std::string caption;  // text, not HTML
  std::vector<DataTable> tables;
  Layout layout = Layout::kGrid;
};

class Page {
 public:
  void section(std::string_view id, std::string_view title);
  void heading(std::string_view title);   // h3
  void paragraph(std::string_view text);  // escaped
  void warning(std::string_view text);    // escaped
  void absent(std::string_view text);     // why a section is left out; escaped
  void raw(std::string_view html) { body_ += html; }
  void figure(Figure figure);
  /// A table without a plot, folded away or open.
  void table(DataTable table, bool open);
  /// A table whose numbers go into DIR/tables and the page, but not into an HTML table.
  void keep(DataTable table);

  const std::vector<DataTable>& tables() const { return tables_; }
  std::string html(const std::string& title, const std::string& header) const;

 private:
  std::string behind(const DataTable& table);

  std::string body_;
  std::vector<std::pair<std::string, std::string>> sections_;  // id, title
  std::vector<DataTable> tables_;
  Json specs_ = Json::array();
  int figures_ = 0;
};

}  // namespace smelt::report
