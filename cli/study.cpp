// smelt study: match, train the pairs, evaluate, fit, report; goes on where it stopped.
#include "smelt/study/study.h"

#include <fmt/format.h>

#include <memory>

#include "cli/verb.h"
#include "smelt/core/table.h"
#include "smelt/core/version.h"
#include "smelt/report/report.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string config, out;
};

std::string result_table(const Json& study) {
  Table table({"cell", "tokens", "Baseline", "SMELT", "gap (mnat)", "95 % interval", "seeds"});
  for (const Json& gap : study.at("gaps")) {
    double losses[2] = {};
    for (const Json& row : study.at("endpoints")) {
      if (row.at("cell") != gap.at("cell") || row.at("tokens") != gap.at("tokens")) continue;
      losses[row.at("arch") == "smelt"] +=
          row.at("loss").get<double>() / static_cast<double>(gap.at("per_seed").size());
    }
    const Json& interval = gap.at("interval");
    table.add_row({gap.at("cell"), with_si(gap.at("tokens")), fmt::format("{:.4f}", losses[0]),
                   fmt::format("{:.4f}", losses[1]),
                   fmt::format("{:+.1f}", 1000 * gap.at("gap").get<double>()),
                   interval.is_array()
                       ? fmt::format("{:+.1f} … {:+.1f}", 1000 * interval[0].get<double>(),
                                     1000 * interval[1].get<double>())
                       : "one seed",
                   std::to_string(gap.at("per_seed").size())});
  }
  return table.text();
}

void run(Session& session, const Options& options) {
  watch_signals();
  study::StudyRequest request;
  request.config = options.config;
  request.out = options.out;
  request.program = std::filesystem::read_symlink("/proc/self/exe");
  request.version = version();
  request.commit = commit();
  request.progress = [&session](const ProgressEvent& event) { session.progress(event); };
  request.log = [&session](const std::string& line) { session.progress.log(line); };
  request.signal = [] { return signal_seen(); };
  bool header = false;
  request.endpoint = [&session, &header](const study::EndpointRow& row) {
    const char* format = "{:<20} {:>6} {:>9}  {:<9} {:>9}";
    if (!header)
      session.progress.log(
          fmt::format(fmt::runtime(format), "cell", "seed", "tokens", "arm", "loss"));
    header = true;
    session.progress.log(fmt::format(fmt::runtime(format), row.cell, row.seed, with_si(row.tokens),
                                     row.arm, fmt::format("{:.4f}", row.loss)));
  };
  const study::StudyResult result = study::run_study(request);
  if (result.interrupted) {
    session.progress.log("interrupted; all finished work is kept in " + options.out +
                         ": run the same command again to go on");
    session.exit_code = 128 + signal_seen();
    return;
  }
  const std::string page = report::write_report(options.out).string();
  if (session.json) {
    print_json({{"schema", "smelt.study-result/1"},
                {"headline", result.study.at("headline")},
                {"study", (std::filesystem::path(options.out) / "study.json").string()},
                {"endpoints", (std::filesystem::path(options.out) / "endpoints.csv").string()},
                {"report", page}});
    return;
  }
  std::string text =
      result_table(result.study) + "\n" + result.study.at("headline").get<std::string>() + "\n";
  for (const Json& line : result.study.at("words")) text += "! " + line.get<std::string>() + "\n";
  print(text + "report: " + page + "\n");
}

}  // namespace

void add_study(CLI::App& program, Session& session) {
  CLI::App& verb =
      new_verb(program, session, "study",
               "Match, train, evaluate and fit pairs of models, and report what looping is worth",
               "smelt study configs/quick.toml --out runs/quick");
  auto options = std::make_shared<Options>();
  verb.add_option("STUDY.toml", options->config, "study configuration")->required();
  verb.add_option("--out", options->out, "the study's folder; an unfinished one goes on")
      ->required();
  verb.callback([&session, options] { run(session, *options); });
}

}  // namespace smelt::cli
