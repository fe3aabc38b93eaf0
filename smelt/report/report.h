// The report of a study: one HTML page that holds its plots, words and tables, opens offline and
// sends no request, and the same tables as CSV files.
//
//   std::filesystem::path page = report::write_report("runs/quick");   // runs/quick/report.html
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "smelt/report/table.h"

namespace smelt::report {

struct Report {
  std::string html;
  std::string headline;
  std::vector<DataTable> tables;
};

/// Everything in memory.  Throws Error naming file and line for a study.json that cannot be read;
/// whatever is missing in a readable one is left out with a sentence.
Report build_report(const std::filesystem::path& study_folder);

/// Writes the page to `out` (default: STUDY/report.html) and its tables to `tables/*.csv` beside
/// it. Returns the page's path.
std::filesystem::path write_report(const std::filesystem::path& study_folder,
                                   const std::filesystem::path& out = {});
/// The same for a report already built.
std::filesystem::path write_report(const Report& report, const std::filesystem::path& out);

}  // namespace smelt::report
