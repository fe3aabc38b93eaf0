// Where the numbers come from: code, machine, time, data, configuration, and the tokens each pair
// read.
#include <fmt/format.h>

#include "smelt/core/table.h"
#include "smelt/report/html.h"
#include "smelt/report/sections.h"

namespace smelt::report {
namespace {

class Facts {
 public:
  void add(const char* name, const std::string& value) {
    if (!value.empty()) html_ += fmt::format("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
  }
  std::string html() const {
    return html_.empty() ? "" : "<dl class=\"plain\">" + html_ + "</dl>\n";
  }

 private:
  std::string html_;
};

std::string seconds_text(const Json& json) {
  const auto seconds = number(json);
  return seconds ? duration_text(*seconds) : "";
}

std::string machine_text(const Json& machine) {
  std::vector<std::string> parts;
  if (!text(get(machine, "cpu")).empty()) parts.push_back(text(get(machine, "cpu")));
  if (const auto cores = number(get(machine, "cores")))
    parts.push_back(count_of(static_cast<std::size_t>(*cores), "core"));
  if (const auto memory = number(get(machine, "memory_gib")))
    parts.push_back(compact(memory) + " GiB memory");
  return join_words(parts);
}

std::string whole_or_nothing(const Json& json) {
  const auto value = number(json);
  return value ? whole(value) : text(json);
}

std::string facts_html(const Json& from) {
  Facts facts;
  facts.add("smelt", text(get(from, "version")));
  facts.add("commit", text(get(from, "commit")));
  facts.add("LibTorch", text(get(from, "torch")));
  facts.add("machine", machine_text(get(from, "machine")));
  facts.add("runs side by side", whole_or_nothing(get(from, "parallel_runs")));
  facts.add("threads per run", whole_or_nothing(get(from, "threads_per_run")));
  facts.add("started", text(get(from, "started")));
  facts.add("finished", text(get(from, "finished")));
  facts.add("took", seconds_text(get(from, "seconds")));
  const Json& stages = get(from, "stage_seconds");
  if (stages.is_object()) {
    for (const auto& [stage, seconds] : stages.items())
      facts.add(("of it: " + stage).c_str(), seconds_text(seconds));
  }
  std::vector<std::string> seeds;
  for (const Json& seed : list(from, {"seeds"})) seeds.push_back(text(seed));
  facts.add("seeds", join_words(seeds));
  const Json& store = get(from, "store");
  facts.add("token store", text(get(store, "path")));
  facts.add("fingerprint of the tokens", text(get(store, "fingerprint")));
  facts.add("vocabulary", whole_or_nothing(get(store, "vocab_size")));
  facts.add("documents", whole_or_nothing(get(store, "documents")));
  facts.add("tokens", whole_or_nothing(get(store, "tokens")));
  const Json& pools = get(store, "pools");
  if (pools.is_object()) {
    for (const auto& [pool, size] : pools.items())
      facts.add((pool + " pool").c_str(), whole_or_nothing(size));
  }
  const auto attended = number(get(store, "mean_attended"));
  facts.add("mean attended positions", attended ? compact(attended) : "");
  return facts.html();
}

DataTable fingerprints(const Json& pairs) {
  DataTable table{"pairs",
                  "Tokens each pair read, and its losses",
                  {{"cell", "cell"},
                   {"seed", "seed"},
                   {"run", "run"},
                   {"fingerprint_baseline", "fingerprint, Baseline"},
                   {"fingerprint_smelt", "fingerprint, SMELT"},
                   {"equal", "same tokens"},
                   {"loss_baseline", "loss, Baseline (nats)", true},
                   {"loss_smelt", "loss, SMELT (nats)", true},
                   {"gap", "gap (nats)", true}},
                  {}};
  const auto add = [&table](const Json& pair, const Json& entry, const std::string& what) {
    const std::string a = text(get(entry, {"fingerprint", "baseline"})),
                      b = text(get(entry, {"fingerprint", "smelt"}));
    const auto baseline = number(get(entry, {"loss", "baseline"})),
               smelt = number(get(entry, {"loss", "smelt"}));
    const auto gap = baseline && smelt ? std::optional(*baseline - *smelt) : std::nullopt;
    const Cell equal = a.empty() || b.empty() ? Cell{"", "–"}
                       : a == b               ? Cell{"yes", "✓ equal"}
                                              : Cell{"no", "✗ differ"};
    table.add({text_cell(text(get(pair, "cell"))),
               text_cell(text(get(pair, "seed"))),
               text_cell(what),
               {a, a.empty() ? "–" : a.substr(0, 12)},
               {b, b.empty() ? "–" : b.substr(0, 12)},
               equal,
               number_cell(baseline, fixed(baseline, 4)),
               number_cell(smelt, fixed(smelt, 4)),
               number_cell(gap, with_sign(gap, 4))});
  };
  for (const Json& pair : pairs) {
    // A pair's own loss is that of its longest branch: shown there.
    Json stable = pair;
    if (!list(pair, {"branches"}).empty()) stable["loss"] = nullptr;
    add(pair, stable, "stable");
    for (const Json& branch : list(pair, {"branches"})) {
      add(pair, branch, "branch, " + si(number(get(branch, "tokens"))) + " tokens");
    }
  }
  return table;
}

}  // namespace

void add_provenance(const Study& study, Page& page) {
  page.section("provenance", "Provenance");
  const Json& from = get(study.json, "provenance");
  const std::string facts = facts_html(from);
  if (facts.empty()) {
    page.absent("The study does not record where its numbers come from.");
  } else {
    page.raw(facts);
  }
  const Json& pairs = list(study.json, {"pairs"});
  if (pairs.empty()) {
    page.absent("No pair has been trained yet.");
  } else {
    page.heading("Tokens of each pair");
    page.table(fingerprints(pairs), true);
  }
  const std::string config = text(get(from, "config"));
  if (!config.empty()) {
    page.heading("Configuration");
    page.raw("<pre tabindex=\"0\">" + escape(config) + "</pre>\n");
  }
}

}  // namespace smelt::report
