#include "smelt/budget/paper_grid.h"

#include <fmt/format.h>

#include <cmath>

#include "smelt/arch/presets.h"

namespace smelt::budget {
namespace {

struct Published {
  const char *name, *total, *active, *sparsity, *flops_ratio, *kv_ratio;
};

constexpr Published kPublished[] = {
    {"100M-S0-baseline", "0.1", "0.1", "0", "", ""},
    {"100M-S0-smelt", "0.1", "0.071", "0", "1.081", "1.018"},
    {"100M-S85-baseline", "0.71", "0.1", "0.86", "", ""},
    {"100M-S85-smelt", "0.71", "0.067", "0.868", "1.024", "0.964"},
    {"100M-S95-baseline", "2.12", "0.101", "0.952", "", ""},
    {"100M-S95-smelt", "2.12", "0.069", "0.955", "1.031", "0.964"},
    {"100M-S97-baseline", "3.7", "0.102", "0.972", "", ""},
    {"100M-S97-smelt", "3.7", "0.07", "0.974", "1.039", "0.964"},
    {"200M-S0-baseline", "0.21", "0.207", "0", "", ""},
    {"200M-S0-smelt", "0.21", "0.142", "0", "1.039", "1.031"},
    {"200M-S85-baseline", "1.32", "0.207", "0.843", "", ""},
    {"200M-S85-smelt", "1.32", "0.14", "0.846", "1.021", "1.031"},
    {"200M-S95-baseline", "3.87", "0.209", "0.946", "", ""},
    {"200M-S95-smelt", "3.89", "0.142", "0.947", "1.029", "1.031"},
    {"200M-S97-baseline", "6.74", "0.212", "0.969", "", ""},
    {"200M-S97-smelt", "6.78", "0.145", "0.969", "1.037", "1.031"},
    {"600M-S0-baseline", "0.66", "0.663", "0", "", ""},
    {"600M-S0-smelt", "0.67", "0.458", "0", "1.046", "1.031"},
    {"600M-S85-baseline", "4.28", "0.665", "0.845", "", ""},
    {"600M-S85-smelt", "4.31", "0.443", "0.851", "1.007", "1.031"},
    {"600M-S95-baseline", "12.54", "0.67", "0.947", "", ""},
    {"600M-S95-smelt", "12.44", "0.453", "0.947", "1.024", "0.984"},
    {"600M-S97-baseline", "21.83", "0.675", "0.969", "", ""},
    {"600M-S97-smelt", "21.7", "0.459", "0.969", "1.031", "0.984"},
    {"1.6B-S0-baseline", "1.63", "1.629", "0", "", ""},
    {"1.6B-S0-smelt", "1.64", "1.101", "0", "1.022", "0.984"},
    {"1.6B-S85-baseline", "10.55", "1.632", "0.845", "", ""},
    {"1.6B-S85-smelt", "10.45", "1.081", "0.846", "1.0", "0.984"},
    {"1.6B-S95-baseline", "30.94", "1.641", "0.947", "", ""},
    {"1.6B-S95-smelt", "30.9", "1.091", "0.948", "1.004", "0.984"},
    {"1.6B-S97-baseline", "53.89", "1.651", "0.969", "", ""},
    {"1.6B-S97-smelt", "53.9", "1.103", "0.97", "1.008", "0.984"},
};

std::string with_arm(const std::string& name, const char* sparsity, const char* arm) {
  return name.substr(0, name.find('-') + 1) + sparsity + "-" + arm;
}

Budget preset_budget(const std::string& name) {
  return count(*arch::preset("paper/" + name), kPaperAttended);
}

/// An unlooped 8-expert control pairs with a looped model of 16 experts, for which hidden size and
/// depth are those of the scale's other looped cells.  Its F and active parameters give the query
/// width and with it the experts' width, and so a total: not the published one.
std::string clash(const Published& p, const Budget& baseline) {
  const std::string name = p.name;
  const arch::ModelConfig sibling = *arch::preset("paper/" + with_arm(name, "S85", "smelt"));
  const auto h = static_cast<double>(sibling.hidden_size);
  const auto layers = static_cast<double>(sibling.num_hidden_layers);
  const auto executed = static_cast<double>(sibling.executed_layers());
  constexpr double kExperts = 16, kUsed = 8;
  const double active = 1e9 * std::stod(p.active);
  const double flops = std::stod(p.flops_ratio) * baseline.flops_per_token;
  const double kv = std::stod(p.kv_ratio) * baseline.kv_elements_per_token / (2 * executed);
  const double multiplied = active / layers - 2 * h;  // per layer, the norms aside
  const double query = (flops - 6 * executed * multiplied) / (12 * kPaperAttended * executed);
  const double width = (multiplied - 2 * h * (query + kv) - h * kExperts) / (kUsed * 3 * h);
  const double total = active + layers * (kExperts - kUsed) * 3 * h * width;
  return fmt::format(
      "inconsistent: F ratio {} and active {} B ask for a query width of {:.0f} and experts of "
      "width "
      "{:.0f}, so {:.3f} B in all; published {} B (its Baseline has {:.3f} B)",
      p.flops_ratio, p.active, query, width, total / 1e9, p.total, baseline.parameters_total / 1e9);
}

}  // namespace

bool PaperFigure::agrees() const {
  if (published.empty()) return true;
  if (!counted) return false;
  const std::size_t point = published.find('.');
  const auto digits =
      static_cast<int>(point == std::string::npos ? 0 : published.size() - point - 1);
  return std::abs(*counted - std::stod(published)) <= 0.5 * std::pow(10.0, -digits) * (1 + 1e-6);
}

bool PaperRow::agrees() const {
  if (!model) return false;
  for (const PaperFigure& figure : figures) {
    if (figure.expected_to_agree && !figure.agrees()) return false;
  }
  return true;
}

std::vector<PaperRow> paper_grid() {
  std::vector<PaperRow> rows;
  for (const Published& p : kPublished) {
    const std::string name = p.name;
    const std::string sparsity_label =
        name.substr(name.find('-') + 1, name.rfind('-') - name.find('-') - 1);
    const Budget control = preset_budget(with_arm(name, "S0", "baseline"));
    const Budget baseline = preset_budget(with_arm(name, sparsity_label.c_str(), "baseline"));
    PaperRow row;
    row.name = name;
    row.model = arch::preset("paper/" + name);
    const bool looped = name.ends_with("-smelt");
    std::optional<double> total, active, s, flops, kv;
    if (row.model) {
      row.budget = count(*row.model, kPaperAttended);
      total = row.budget.parameters_total / 1e9;
      active = row.budget.parameters_active / 1e9;
      s = sparsity(row.budget, control);
      if (looped) {
        const Mismatch off = mismatch(row.budget, baseline);
        flops = 1 + off.flops;
        kv = 1 + off.kv_cache;
      }
    } else {
      row.words = clash(p, baseline);
    }
    row.figures = {{"total", p.total, total, true},
                   {"active", p.active, active, true},
                   {"sparsity", p.sparsity, s, !looped},
                   {"flops_ratio", p.flops_ratio, flops, true},
                   {"kv_ratio", p.kv_ratio, kv, true}};
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace smelt::budget
