// A probe's result as JSON and as tables.
#include <fmt/format.h>

#include <cmath>

#include "smelt/core/table.h"
#include "smelt/probe/probe.h"

namespace smelt::probe {
namespace {

/// The value of a figure, or its standard error: the two trees of the JSON have one shape.
using Read = double (DocumentMean::*)() const;

class Tree {
 public:
  explicit Tree(Read read) : read_(read) {}

  Json operator()(const DocumentMean& figure) const {
    const double value = (figure.*read_)();
    return std::isfinite(value) ? Json(value) : Json();
  }
  template <class T>
  Json operator()(const std::vector<T>& list) const {
    Json json = Json::array();
    for (const T& item : list) json.push_back((*this)(item));
    return json;
  }
  Json operator()(const Attended& attended) const {
    return {{"top1", (*this)(attended.top1)},
            {"topk", (*this)(attended.topk)},
            {"dist", (*this)(attended.dist)}};
  }
  /// The first figures of `list`, by name.
  Json named(const char* const* names, const DocumentMean* list, std::size_t count) const {
    Json json = Json::object();
    for (std::size_t i = 0; i < count; ++i) json[names[i]] = (*this)(list[i]);
    return json;
  }
  Json operator()(const LayerPair& pair, const ProbeOptions& options) const {
    Json json = {{"layer", pair.layer + 1}, {"expert_overlap", (*this)(pair.expert_overlap)}};
    if (options.writes) {
      json["norm_ratio"] = named(kNormNames, pair.norm_ratio, kNorms);
      json["norm_ratio_per_token"] = named(kNormNames, pair.norm_ratio_per_token, kPlainNorms);
      json["write_cosine"] = named(kWriteNames, pair.write_cosine, kWrites);
      json["cross_visit_cosine"] = {
          {"X", (*this)(pair.cosine_x)},   {"O", (*this)(pair.cosine_o)},
          {"Q", (*this)(pair.cosine_q)},   {"Q_mean", (*this)(pair.cosine_q_mean)},
          {"K", (*this)(pair.cosine_k)},   {"K_mean", (*this)(pair.cosine_k_mean)},
          {"V", (*this)(pair.cosine_v)},   {"V_mean", (*this)(pair.cosine_v_mean)},
          {"PV", (*this)(pair.cosine_pv)}, {"PV_mean", (*this)(pair.cosine_pv_mean)}};
    }
    if (options.attended) json["attended"] = (*this)(pair.attended);
    return json;
  }

  /// Every probe of the result.
  Json figures(const ProbeResult& result) const {
    Json json = Json::object();
    if (result.options.writes) {
      json["write_norms"] = Json::array();
      for (const auto& norms : result.norms) {
        json["write_norms"].push_back(named(kNormNames, norms.data(), kNorms));
      }
      Json matrices = Json::object();
      for (std::size_t w = 0; w < kWrites; ++w) {
        matrices[kWriteNames[w]] = (*this)(result.write_cosine[w]);
      }
      json["write_cosine_matrix"] = matrices;
    }
    json["sink"] = (*this)(result.sink);
    json["sink_including_first"] = (*this)(result.sink_including_first);
    if (result.options.attended) json["head_control"] = (*this)(result.head_control);
    json["pairs"] = Json::object();
    for (const VisitPair& pair : result.pairs) {
      Json entry = {{"layers", Json::array()}};
      for (const LayerPair& layer : pair.layers) {
        entry["layers"].push_back((*this)(layer, result.options));
      }
      if (result.options.writes) {
        entry["other_pairs_cosine"] = named(kWriteNames, pair.other_pairs_cosine, kWrites);
      }
      json["pairs"][fmt::format("{}-{}", pair.visit_a, pair.visit_b)] = entry;
    }
    return json;
  }

 private:
  Read read_;
};

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.3f}", value) : "-";
}

std::string with_error(const DocumentMean& figure) {
  const double error = figure.standard_error();
  return number(figure.mean()) + (std::isfinite(error) ? fmt::format(" ± {:.3f}", error) : "");
}

double mean_of(const Heads& heads) {
  double sum = 0;
  for (const DocumentMean& head : heads) sum += head.mean();
  return sum / static_cast<double>(heads.size());
}

std::string largest(const Heads& heads) {
  std::size_t best = 0;
  for (std::size_t h = 1; h < heads.size(); ++h) {
    if (heads[h].mean() > heads[best].mean()) best = h;
  }
  return fmt::format("{} (head {})", with_error(heads[best]), best + 1);
}

std::string layers_text(const ProbeResult& result) {
  const bool writes = result.options.writes;
  std::vector<std::string> header = {"executed", "layer", "visit", "sink, mean",
                                     "sink, largest head"};
  if (writes) header.insert(header.end(), {"update norm", "relative", "attention", "MoE"});
  Table table(header);
  for (std::size_t e = 0; e < result.executed.size(); ++e) {
    const arch::ExecutedLayer& layer = result.executed[e];
    std::vector<std::string> row = {std::to_string(e + 1), std::to_string(layer.layer + 1),
                                    std::to_string(layer.visit), number(mean_of(result.sink[e])),
                                    largest(result.sink[e])};
    if (writes) {
      for (const std::size_t norm : {0, 7, 1, 2})
        row.push_back(number(result.norms[e][norm].mean()));
    }
    table.add_row(row);
  }
  return table.text();
}

std::string pair_text(const ProbeResult& result, const VisitPair& pair) {
  const ProbeOptions& options = result.options;
  std::vector<std::string> header = {"layer", "experts in common"};
  if (options.writes) {
    header.insert(header.end(), {"update ratio", "cos update", "cos X", "cos Q", "cos V", "cos O"});
  }
  if (options.attended)
    header.insert(header.end(), {"same top-1", "top-8 in common", "maps in common"});
  Table table(header);
  for (const LayerPair& layer : pair.layers) {
    std::vector<std::string> row = {std::to_string(layer.layer + 1),
                                    with_error(layer.expert_overlap)};
    if (options.writes) {
      for (const DocumentMean* figure :
           {&layer.norm_ratio[0], &layer.write_cosine[0], &layer.cosine_x, &layer.cosine_q_mean,
            &layer.cosine_v_mean, &layer.cosine_o}) {
        row.push_back(number(figure->mean()));
      }
    }
    if (options.attended) {
      for (const Heads* heads :
           {&layer.attended.top1, &layer.attended.topk, &layer.attended.dist}) {
        row.push_back(number(mean_of(*heads)));
      }
    }
    table.add_row(row);
  }
  std::string text =
      fmt::format("\nvisit {} against visit {} (experts in common by chance: {:.3f})\n",
                  pair.visit_a, pair.visit_b, result.expert_chance) +
      table.text();
  if (options.writes) {
    text += "cosine of the updates of different layers: " + with_error(pair.other_pairs_cosine[0]) +
            "\n";
  }
  return text;
}

}  // namespace

Json to_json(const ProbeResult& result) {
  Json json = {{"schema", "smelt.probe/1"}, {"executed", Json::array()}};
  for (const arch::ExecutedLayer& layer : result.executed) {
    json["executed"].push_back(
        {{"layer", layer.layer + 1}, {"visit", layer.visit}, {"scale", layer.residual_scale}});
  }
  json["tokens"] = result.tokens;
  json["documents"] = result.documents;
  json["expert_chance"] = result.expert_chance;
  const Json values = Tree(&DocumentMean::mean).figures(result);
  for (const auto& [name, value] : values.items()) json[name] = value;
  json["standard_errors"] = Tree(&DocumentMean::standard_error).figures(result);
  return json;
}

std::string text(const ProbeResult& result) {
  std::string text =
      fmt::format("{} tokens in {} documents\n", with_commas(static_cast<double>(result.tokens)),
                  with_commas(static_cast<double>(result.documents))) +
      layers_text(result);
  for (const VisitPair& pair : result.pairs) text += pair_text(result, pair);
  return text;
}

}  // namespace smelt::probe
