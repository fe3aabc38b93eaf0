// smelt gain: the compute one arm saves against another at equal loss, CE Gain (paper section 6).
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "cli/endpoints.h"
#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/core/table.h"
#include "smelt/law/gain.h"
#include "smelt/law/loss_gap.h"

namespace smelt::cli {
namespace {

struct Request {
  RowFlags rows;
  std::string reference = "baseline", target = "smelt";
  std::string form = "smelt";
  std::vector<std::string> compute, subsets;
  std::vector<double> sparsity;
  bool quartiles = false;
  law::FitOptions fit;
  law::BootstrapOptions bootstrap;
};

std::string percent(const std::optional<double>& value) {
  return value ? fmt::format("{:.1f} %", 100 * *value) : "–";
}

std::string percent(const std::optional<law::Range>& range) {
  return range ? fmt::format("{:.1f} … {:.1f} %", 100 * range->min, 100 * range->max) : "–";
}

std::string gain_text(const law::GainResult& result) {
  const bool timed = result.time_ratio.has_value();
  std::vector<std::string> header = {"compute",  "S",         "CE Gain",       "interval",
                                     "loss gap", "D* target", "TPP reference", "TPP target"};
  if (timed) header.emplace_back("wall clock");
  header.emplace_back("note");
  Table table(header);
  const auto number = [](const std::optional<double>& value, int digits) {
    return value ? fmt::format("{:.{}f}", *value, digits) : std::string("–");
  };
  for (const law::GainPoint& point : result.points) {
    std::vector<std::string> row = {fmt::format("{:.4g}", point.compute),
                                    fmt::format("{:g}", point.sparsity),
                                    percent(point.gain),
                                    percent(point.interval),
                                    number(point.loss_gap, 4),
                                    point.tokens_target ? with_si(*point.tokens_target) : "–",
                                    number(point.tpp_reference, 0),
                                    number(point.tpp_target, 0)};
    if (timed) row.push_back(percent(point.wall_clock_gain));
    row.push_back(point.words);
    table.add_row(row);
  }
  std::string text = table.text();
  if (timed) {
    text += fmt::format("a FLOP of the target takes {:.3f} times as long as one of the reference\n",
                        *result.time_ratio);
  }
  if (!result.subsets.empty()) {
    Table parts({"subset", "compute", "S", "CE Gain", "interval", "loss gap", "note"});
    for (const law::SubsetGain& subset : result.subsets) {
      if (subset.points.empty()) parts.add_row({subset.name, "", "", "–", "–", "–", subset.words});
      for (const law::GainPoint& point : subset.points) {
        parts.add_row({subset.name, fmt::format("{:.4g}", point.compute),
                       fmt::format("{:g}", point.sparsity), percent(point.gain),
                       percent(point.interval), number(point.loss_gap, 4), point.words});
      }
    }
    text += "\nexponents of the whole, floor and amplitudes of the subset\n" + parts.text();
  }
  for (const std::string& warning : result.warnings) text += "! " + warning + "\n";
  return text;
}

/// What the pairs say by themselves, where both arms have the same cells, tokens and seeds.
std::optional<law::LossGap> paired_gap(const std::vector<law::Point>& reference,
                                       const std::vector<law::Point>& target, double confidence) {
  try {
    return law::loss_gap(reference, target, confidence);
  } catch (const Error&) {
    return std::nullopt;  // rows that do not pair are no fault here
  }
}

/// Numbers, or LOW:HIGH:COUNT for a range in equal ratios.
std::vector<double> budgets(const std::vector<std::string>& texts) {
  std::vector<double> values;
  for (const std::string& text : texts) {
    std::vector<double> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(':', begin), text.size());
      double value = 0;
      if (!CLI::detail::lexical_cast(text.substr(begin, end - begin), value) ||
          !(std::isfinite(value) && value > 0)) {
        throw CLI::ValidationError(
            "--compute", "expected numbers above 0 or LOW:HIGH:COUNT, got " + clipped(text));
      }
      parts.push_back(value);
      begin = end + 1;
    }
    if (parts.size() == 1) {
      values.push_back(parts[0]);
    } else if (parts.size() == 3 && parts[0] < parts[1] && parts[2] >= 2 && parts[2] <= 1000 &&
               parts[2] == std::floor(parts[2])) {
      for (double i = 0; i < parts[2]; ++i) {
        values.push_back(parts[0] * std::pow(parts[1] / parts[0], i / (parts[2] - 1)));
      }
    } else {
      throw CLI::ValidationError(
          "--compute",
          "expected LOW:HIGH:COUNT with LOW below HIGH and COUNT 2 to 1000, got " + clipped(text));
    }
  }
  return values;
}

/// Target's seconds per FLOP over the reference's: geometric mean over cells that both arms timed.
std::optional<double> time_ratio(const law::Endpoints& table, const std::string& reference,
                                 const std::string& target) {
  const auto column = table.csv.find("step_seconds");
  if (!column) return std::nullopt;
  std::map<std::string, std::pair<double, double>> cells;  // seconds per FLOP of a token
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const law::Point& point = table.rows[row];
    if (table.csv.rows[row][*column].empty()) continue;
    const double seconds = table.csv.number(row, *column);
    if (seconds <= 0) {
      throw Error("law",
                  "column \"step_seconds\": expected a number above 0, got " + number_text(seconds),
                  table.csv.where(row));
    }
    if (point.group == reference) cells[point.cell].first = seconds / point.size;
    if (point.group == target) cells[point.cell].second = seconds / point.size;
  }
  double sum = 0, count = 0;
  for (const auto& [cell, times] : cells) {
    if (times.first == 0 || times.second == 0) continue;
    sum += std::log(times.second / times.first);
    count += 1;
  }
  if (count == 0) return std::nullopt;
  return std::exp(sum / count);
}

/// Losses of each subset: columns by name ("all": every column "loss:…"), or quartiles of them by
/// the reference's loss, ranked in each pair.
std::vector<law::Subset> subsets_of(const Request& request, const law::Endpoints& table) {
  std::vector<std::string> names = request.subsets;
  if (names == std::vector<std::string>{"all"} || (names.empty() && request.quartiles)) {
    names.clear();
    for (const std::string& column : table.csv.header) {
      if (column.starts_with("loss:")) names.push_back(column);
    }
    if (names.empty())
      throw Error("law", "--subsets: no column begins with \"loss:\"", table.csv.name);
  }
  std::vector<law::Subset> subsets;
  for (const std::string& name : names) {
    const std::size_t column = table.csv.column(name);
    law::Subset subset{name.starts_with("loss:") ? name.substr(5) : name, {}, {}};
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      const std::string& group = table.rows[row].group;
      if (group != request.reference && group != request.target) continue;
      (group == request.reference ? subset.reference : subset.target)
          .push_back(table.csv.number(row, column));
    }
    subsets.push_back(std::move(subset));
  }
  return request.quartiles ? law::quartiles(subsets, table.points(request.reference),
                                            table.points(request.target))
                           : subsets;
}

void run(Session& session, const Request& request) {
  law::GainOptions options;
  options.compute = budgets(request.compute);
  options.sparsity = request.sparsity;
  options.fit = request.fit;
  options.bootstrap = request.bootstrap;
  if (request.rows.files.empty()) {
    const auto draws_of = [](const std::string& file) -> std::optional<law::Draws> {
      const Json json = read_json(file);
      if (!json.contains("draws_kept")) return std::nullopt;
      return law::draws_from_json(json.at("draws_kept"), file);
    };
    const law::Law reference = law::read_law(request.reference),
                   target = law::read_law(request.target);
    const auto reference_draws = draws_of(request.reference),
               target_draws = draws_of(request.target);
    const auto result =
        law::gain(reference, target, options, reference_draws ? &*reference_draws : nullptr,
                  target_draws ? &*target_draws : nullptr);
    print_result(session, to_json(result), gain_text(result));
    return;
  }
  if (request.reference == request.target) {
    throw CLI::ValidationError("--target", "expected another arm than --reference, got \"" +
                                               clipped(request.target) + "\" for both");
  }
  const law::Form& form = law::find_form(request.form);
  const Csv rows = request.rows.read();
  const Selection selection =
      select_rows(rows, request.rows, columns_for(session, rows, form, request.rows));
  const law::Endpoints& table = selection.kept;
  const auto reference = table.points(request.reference), target = table.points(request.target);
  options.time_ratio = time_ratio(table, request.reference, request.target);
  options.subsets = subsets_of(request, table);
  options.progress = [&session](double done, double total) {
    session.progress({"bootstrap", done, total, "draws", ""});
  };
  const law::GainResult result = law::gain(reference, target, form, options);
  const auto pairs = paired_gap(reference, target, options.bootstrap.confidence);
  if (session.json) {
    Json json = to_json(result);
    json["paired_loss_gap"] = pairs ? to_json(*pairs) : Json(nullptr);
    if (!selection.excluded.empty()) json["excluded"] = selection.excluded;
    print_json(json);
    return;
  }
  std::string text = selection.text + gain_text(result);
  if (pairs) text += "matched pairs: " + pairs->words + "\n";
  print(text);
}

}  // namespace

void add_gain(CLI::App& program, Session& session) {
  auto& verb =
      new_verb(program, session, "gain", "The compute one arm saves at equal loss (CE Gain)",
               "smelt gain endpoints.csv --reference baseline --target smelt --compute 1e18,1e19 "
               "--sparsity 0.85\n  smelt gain endpoints.csv --compute 1e18:1e21:7 --subsets all\n"
               "  smelt gain --reference baseline.json --target smelt.json "
               "--compute 1e21 --sparsity 0.95");
  auto request = std::make_shared<Request>();
  verb.add_option(
      "ENDPOINTS", request->rows.files,
      "CSV, JSON or JSON lines with a row per finished run, several read as one; without "
      "it --reference and --target are law files");
  verb.add_option("--reference", request->reference, "arm of the table, or a law file")
      ->capture_default_str();
  verb.add_option("--target", request->target, "arm of the table, or a law file")
      ->capture_default_str();
  verb.add_option("--compute", request->compute,
                  "training FLOPs C = F D, or LOW:HIGH:COUNT (default: three budgets inside the "
                  "data)")
      ->delimiter(',');
  verb.add_option("--sparsity", request->sparsity, "S (default: those of the data)")
      ->delimiter(',');
  verb.add_option("--form", request->form, "law: " + join_choices(law::form_names()))
      ->capture_default_str()
      ->check(CLI::IsMember(law::form_names()));
  verb.add_option("--subsets", request->subsets,
                  "columns with losses on parts of the validation data, or all (every \"loss:…\")")
      ->delimiter(',');
  verb.add_flag("--quartiles", request->quartiles,
                "the subsets in four parts by the reference's loss, ranked in each pair");
  add_row_flags(verb, request->rows);
  add_flags(verb, request->fit);
  add_flags(verb, request->bootstrap, "Options",
            [](std::string_view field) { return field == "leave_one_out"; });
  verb.callback([&session, &verb, request] {
    for (const char* flag : {"--interval", "--unit", "--confidence"}) {
      if (request->bootstrap.draws == 0 && verb.get_option(flag)->count() > 0) {
        throw CLI::ValidationError(flag, "needs draws, got --draws 0");
      }
    }
    run(session, *request);
  });
}

}  // namespace smelt::cli
