// The top of the page: the headline, the pooled gap as a picture that needs no script, key facts,
// and what the study can and cannot say.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "smelt/core/table.h"
#include "smelt/report/charts.h"
#include "smelt/report/html.h"
#include "smelt/report/sections.h"

namespace smelt::report {
namespace {

/// Places a value of [low, high] between the margins of the picture.
struct Axis {
  double low = 0, high = 1;
  double operator()(double value) const { return 20 + 600 * (value - low) / (high - low); }
};

std::string interval_words(const Json& gap) {
  const auto range = interval(get(gap, "interval"));
  if (!range) return "no interval";
  const double level = number(get(gap, "level")).value_or(0.95);
  return fmt::format("{:.0f} % interval {} to {}", 100 * level, with_sign(range->low, 4),
                     with_sign(range->high, 4));
}

/// Interval, mean and seeds of the pooled gap on one line, with the zero that decides.
std::string hero_svg(const Json& gap) {
  const auto mean = number(get(gap, "gap"));
  if (!mean) return "";
  const auto range = interval(get(gap, "interval"));
  Extent extent;
  extent.add(0.0);
  extent.add(mean);
  if (range) {
    extent.add(range->low);
    extent.add(range->high);
  }
  for (const Json& seed : list(gap, {"per_seed"})) extent.add(number(get(seed, "gap")));
  const Json domain = extent.domain(0.08);
  const Axis x{domain[0].get<double>(), domain[1].get<double>()};

  std::string svg = fmt::format(
      "<svg class=\"hero\" viewBox=\"0 -8 640 104\" role=\"img\" aria-label=\"Loss gap {} nats per "
      "token, {}\">",
      with_sign(mean, 4), escape(interval_words(gap)));
  svg += fmt::format(
      "<line x1=\"20\" x2=\"620\" y1=\"48\" y2=\"48\" stroke=\"var(--rule)\"/>"
      "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"24\" y2=\"68\" stroke=\"var(--muted)\" "
      "stroke-width=\"1.5\"/>"
      "<text x=\"{0:.1f}\" y=\"88\" text-anchor=\"middle\">0</text>",
      x(0));
  if (range) {
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"42\" width=\"{:.1f}\" height=\"12\" rx=\"6\" "
        "fill=\"var(--smelt)\" opacity=\"0.28\"/>",
        x(range->low), x(range->high) - x(range->low));
  }
  for (const Json& seed : list(gap, {"per_seed"})) {
    if (const auto value = number(get(seed, "gap"))) {
      svg += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"48\" r=\"3.5\" fill=\"var(--paper)\" "
          "stroke=\"var(--smelt)\" stroke-width=\"1.6\"/>",
          x(*value));
    }
  }
  svg += fmt::format(
      "<circle cx=\"{0:.1f}\" cy=\"48\" r=\"6.5\" fill=\"var(--smelt)\"/>"
      "<text class=\"strong\" x=\"{1:.1f}\" y=\"33\" text-anchor=\"middle\">{2} nats</text>",
      x(*mean), std::clamp(x(*mean), 75.0, 565.0), with_sign(mean, 4));
  svg +=
      "<text x=\"20\" y=\"8\">← Baseline better</text>"
      "<text x=\"620\" y=\"8\" text-anchor=\"end\">SMELT better →</text></svg>\n";
  return svg;
}

std::string tokens_words(const Study& study) {
  Extent tokens;
  for (const Json& row : list(study.json, {"endpoints"})) tokens.add(number(get(row, "tokens")));
  for (const Json& row : list(study.json, {"gaps"})) tokens.add(number(get(row, "tokens")));
  if (!tokens.low) return "–";
  return *tokens.low == *tokens.high ? si(tokens.low) : si(tokens.low) + " to " + si(tokens.high);
}

struct Worst {
  std::optional<double> flops, parameters, kv_cache;
  void add(const Json& mismatch) {
    const auto keep = [](std::optional<double>& worst, std::optional<double> value) {
      if (value && (!worst || std::abs(*value) > std::abs(*worst))) worst = value;
    };
    keep(flops, number(get(mismatch, "flops")));
    keep(parameters, number(get(mismatch, "parameters")));
    keep(kv_cache, number(get(mismatch, "kv_cache")));
  }
};

Worst worst_mismatch(const Study& study) {
  Worst worst;
  for (const Json& cell : list(study.json, {"cells"})) worst.add(get(cell, "mismatch"));
  for (const Json& pair : list(study.json, {"pairs"})) worst.add(get(pair, "mismatch"));
  return worst;
}

std::string fact(std::string_view name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
}

std::string facts_html(const Study& study) {
  const Json& json = study.json;
  std::string html = "<dl class=\"facts\">";
  html += fact("pairs trained", std::to_string(list(json, {"pairs"}).size()));
  html += fact("cells", std::to_string(study.cells().size()));
  html += fact("seeds", std::to_string(study.seeds().size()));
  html += fact("tokens per run", tokens_words(study));
  const Worst worst = worst_mismatch(study);
  if (worst.flops || worst.parameters || worst.kv_cache) {
    html += fact(
        "largest mismatch F / N / KV",
        percent(worst.flops) + " / " + percent(worst.parameters) + " / " + percent(worst.kv_cache));
  }
  if (const auto seconds = number(get(json, {"provenance", "seconds"}))) {
    html += fact("took", duration_text(*seconds));
  }
  return html + "</dl>\n";
}

/// "fingerprints equal in 6 of 6 pairs"
std::string fingerprint_words(const Study& study) {
  std::size_t known = 0, equal = 0;
  for (const Json& pair : list(study.json, {"pairs"})) {
    const std::string a = text(get(pair, {"fingerprint", "baseline"}));
    const std::string b = text(get(pair, {"fingerprint", "smelt"}));
    if (a.empty() || b.empty()) continue;
    ++known;
    equal += a == b ? 1 : 0;
  }
  if (known == 0) return "Whether the arms of a pair read the same tokens is not recorded.";
  return fmt::format("The two arms of a pair read {} tokens: fingerprints are equal in {} of {}.",
                     equal == known ? "the same" : "NOT always the same", equal,
                     count_of(known, "pair"));
}

std::string time_words(const Study& study) {
  Extent ratio;
  for (const Json& cell : list(study.json, {"cells"})) {
    const auto baseline = number(get(cell, {"step_seconds", "baseline"}));
    const auto smelt = number(get(cell, {"step_seconds", "smelt"}));
    if (baseline && smelt && *baseline > 0) ratio.add(*smelt / *baseline);
  }
  if (!ratio.low) return "";
  const std::string times = fixed(ratio.low, 2) == fixed(ratio.high, 2)
                                ? fixed(ratio.low, 2)
                                : fixed(ratio.low, 2) + " to " + fixed(ratio.high, 2);
  return "Equal FLOPs are not equal time: on this machine a SMELT step took " + times +
         " times its Baseline's.";
}

class Bullets {
 public:
  void add(const std::string& line) {
    if (line.empty() || !seen_.insert(line).second) return;
    html_ += "<li>" + escape(line) + "</li>";
  }
  void add(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) add(line);
  }
  bool empty() const { return html_.empty(); }
  std::string html() const { return "<ul>" + html_ + "</ul>"; }

 private:
  std::set<std::string> seen_;
  std::string html_;
};

Bullets says(const Study& study) {
  Bullets bullets;
  const Json& gap = get(study.json, "gap");
  bullets.add(text(get(gap, "words")));
  if (const auto mean = number(get(gap, "gap"))) {
    const std::size_t seeds = list(gap, {"per_seed"}).size();
    bullets.add(
        fmt::format("At the longest horizon SMELT's validation loss is {} nats per token {} than "
                    "its Baseline's: mean of {}, {}.",
                    fixed(std::abs(*mean), 4), *mean >= 0 ? "lower" : "higher",
                    count_of(seeds, "seed"), interval_words(gap)));
  }
  bullets.add(fingerprint_words(study));
  const Worst worst = worst_mismatch(study);
  if (worst.flops) {
    bullets.add(
        fmt::format("How equal the cost is: the largest mismatch of a pair is {} of training FLOPs "
                    "per token, {} of "
                    "parameters, {} of KV cache.",
                    percent(worst.flops), percent(worst.parameters), percent(worst.kv_cache)));
  }
  return bullets;
}

Bullets does_not_say(const Study& study) {
  Bullets bullets;
  const Json& json = study.json;
  bullets.add(words(get(json, "words")));
  if (truth(get(json, {"gap", "within_noise"}))) {
    bullets.add(
        "The interval of the gap holds zero, or there is none: which arm is better is not decided "
        "here.");
  }
  bullets.add(words(get(json, {"law", "words"})));
  bullets.add(words(get(json, {"gain", "words"})));
  bullets.add(words(get(json, {"rates", "words"})));
  bullets.add(time_words(study));
  return bullets;
}

}  // namespace

std::string headline_of(const Study& study) {
  std::string given = text(get(study.json, "headline"));
  if (!given.empty()) return given;
  const Json& gap = get(study.json, "gap");
  const auto mean = number(get(gap, "gap"));
  if (!mean) return "This study has no loss gap yet.";
  return fmt::format("At equal cost SMELT's loss is {} nats per token {} than its Baseline's ({}).",
                     fixed(std::abs(*mean), 4), *mean >= 0 ? "lower" : "higher",
                     interval_words(gap));
}

std::string header_html(const Study& study) {
  std::string html = "<p class=\"eyebrow\">smelt: a looped model and its Baseline at equal cost";
  const std::string finished = text(get(study.json, {"provenance", "finished"}));
  if (!finished.empty()) html += " · " + escape(finished);
  html += "</p>\n<h1>Study " + escape(study.name()) + "</h1>\n";
  html += "<p class=\"headline\">" + escape(headline_of(study)) + "</p>\n";
  html += hero_svg(get(study.json, "gap"));
  html += facts_html(study);
  const Json& complete = get(study.json, "complete");
  if (complete.is_boolean() && !complete.get<bool>()) {
    html +=
        "<p class=\"warn\">This study is not finished: what follows is what has been measured so "
        "far.</p>\n";
  }
  return html;
}

void add_says(const Study& study, Page& page) {
  page.section("says", "What this says, and what it does not");
  const Bullets yes = says(study), no = does_not_say(study);
  page.raw(
      "<div class=\"box\"><div><h3>It says</h3>" + yes.html() +
      "</div><div><h3>It does not say</h3>" +
      (no.empty() ? "<p class=\"absent\">The study names no caution of its own.</p>" : no.html()) +
      "</div></div>\n");
}

}  // namespace smelt::report
