#include "smelt/report/report.h"

#include "smelt/core/csv.h"
#include "smelt/core/file.h"
#include "smelt/report/sections.h"

namespace smelt::report {

Report build_report(const std::filesystem::path& study_folder) {
  const Study study = read_study(study_folder);
  Page page;
  add_says(study, page);
  add_budgets(study, page);
  add_curves(study, page);
  add_gaps(study, page);
  add_domains(study, page);
  add_lengths(study, page);
  add_rates(study, page);
  add_endpoints(study, page);
  add_gain(study, page);
  add_router(study, page);
  add_sink(study, page);
  add_overlap(study, page);
  add_provenance(study, page);
  Report report;
  report.headline = headline_of(study);
  report.html = page.html("smelt report: " + study.name(), header_html(study));
  report.tables = page.tables();
  return report;
}

std::filesystem::path write_report(const Report& report, const std::filesystem::path& out) {
  const auto tables = out.parent_path() / "tables";
  make_folder(tables);
  for (const DataTable& table : report.tables) {
    write_file_atomic(tables / (table.name + ".csv"), to_text(to_csv(table)));
  }
  write_file_atomic(out, report.html);
  return out;
}

std::filesystem::path write_report(const std::filesystem::path& study_folder,
                                   const std::filesystem::path& out) {
  return write_report(build_report(study_folder), out.empty() ? study_folder / "report.html" : out);
}

}  // namespace smelt::report
