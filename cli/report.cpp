// smelt report: the page of a study, written anew from what its folder holds.
#include "smelt/report/report.h"

#include <memory>

#include "cli/verb.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string study, out;
};

void run(Session& session, const Options& options) {
  const auto report = report::build_report(options.study);
  const auto out = options.out.empty() ? std::filesystem::path(options.study) / "report.html"
                                       : std::filesystem::path(options.out);
  report::write_report(report, out);
  if (!session.json) {
    print(report.headline + "\nreport: " + out.string() + "\n");
    return;
  }
  Json tables = Json::array();
  for (const auto& table : report.tables) {
    tables.push_back((out.parent_path() / "tables" / (table.name + ".csv")).string());
  }
  print_json({{"schema", "smelt.report/1"},
              {"report", out.string()},
              {"headline", report.headline},
              {"bytes", report.html.size()},
              {"tables", tables}});
}

}  // namespace

void add_report(CLI::App& program, Session& session) {
  CLI::App& verb =
      new_verb(program, session, "report",
               "The page of a study: plots, words and tables in one file that opens offline",
               "smelt report runs/quick");
  auto options = std::make_shared<Options>();
  verb.add_option("STUDY", options->study, "study folder (with study.json in it)")->required();
  verb.add_option("--out", options->out,
                  "page to write; its tables go to tables/ beside it (default: STUDY/report.html)");
  verb.callback([&session, options] { run(session, *options); });
}

}  // namespace smelt::cli
