#include "smelt/model/case_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "smelt/core/error.h"
#include "smelt/model/loss.h"
#include "smelt/model/weights.h"

namespace smelt::model {
namespace {

/// Collects measured differences and turns those beyond tolerance into problems.
struct Measures {
  CaseResult& result;

  void record(const std::string& kind, double difference) {
    for (auto& [name, worst] : result.worst) {
      if (name != kind) continue;
      if (std::isnan(difference) || difference > worst) worst = difference;
      return;
    }
    result.worst.emplace_back(kind, difference);
  }
  void problem(const std::string& line) { result.problems.push_back(line); }
  /// `what` says where within the kind, e.g. a tensor's name.
  void compare(const std::string& kind, double difference, double tolerance,
               const std::string& what) {
    record(kind, difference);
    if (difference <= tolerance) return;  // false for NaN
    const std::string place = what.empty() ? "" : what + " ";
    problem(std::isnan(difference) ? fmt::format("{}: {}is not a number", kind, place)
                                   : fmt::format("{}: {}differs by {:.3g}, tolerance {:.0e}", kind,
                                                 place, difference, tolerance));
  }
};

/// Largest absolute difference; NaN where either side is not a number.
double largest_difference(const at::Tensor& got, const at::Tensor& expected) {
  if (got.numel() == 0) return 0;
  return (got.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>();
}

struct Case {
  std::string where;  // of expected.json
  Json expected;
  std::unordered_map<std::string, at::Tensor> tensors;
  Batch batch;
};

/// Numbers of a JSON array; null becomes NaN.
std::vector<double> numbers(const Json& json, const std::string& what, const std::string& where,
                            std::size_t count) {
  std::vector<double> values;
  const std::function<void(const Json&)> flatten = [&](const Json& item) {
    if (item.is_array()) {
      for (const Json& inner : item) flatten(inner);
    } else if (item.is_null()) {
      values.push_back(std::numeric_limits<double>::quiet_NaN());
    } else if (item.is_number()) {
      values.push_back(item.get<double>());
    } else {
      throw Error("model", fmt::format("\"{}\": expected numbers, got {}", what, item.dump()),
                  where);
    }
  };
  flatten(json);
  if (values.size() != count) {
    throw Error("model",
                fmt::format("\"{}\": expected {} numbers, got {}", what, count, values.size()),
                where);
  }
  return values;
}

void check_schema(const Json& json, const std::string& where) {
  const auto schema = json_get<std::string>(json, "schema", where);
  if (schema != "smelt-case-1") {
    throw Error("model", fmt::format("expected schema \"smelt-case-1\", got \"{}\"", schema),
                where);
  }
}

void check_schedule(const Case& c, const Decoder& decoder, Measures& measures) {
  const Json expected = json_get<Json>(c.expected, "executed", c.where);
  std::vector<std::string> want, got;
  for (const Json& step : expected) {
    want.push_back(
        fmt::format("{}/{} x {}", json_get<std::int64_t>(step, "layer", c.where),
                    json_get<std::int64_t>(step, "visit", c.where),
                    static_cast<float>(json_get<double>(step, "residual_scale", c.where))));
  }
  for (const arch::ExecutedLayer& step : decoder.schedule) {
    got.push_back(fmt::format("{}/{} x {}", step.layer + 1, step.visit,
                              static_cast<float>(step.residual_scale)));
  }
  if (want != got) {
    measures.problem(fmt::format("executed: expected layer/visit x scale {}, got {}",
                                 fmt::join(want, ", "), fmt::join(got, ", ")));
  }
}

void check_tokens(const Case& c, const at::Tensor& nll, const Tolerance& tolerance,
                  Measures& measures) {
  const auto size = static_cast<std::size_t>(c.batch.size());
  const auto expected =
      numbers(json_get<Json>(c.expected, "per_token_nll", c.where), "per_token_nll", c.where, size);
  const auto* got = nll.const_data_ptr<float>();
  const auto* targets = c.batch.targets.const_data_ptr<std::int64_t>();
  double worst = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const auto place = [&] {
      const auto at = static_cast<std::int64_t>(i);
      return fmt::format("row {}, position {}", at / c.batch.row_length, at % c.batch.row_length);
    };
    const bool masked = targets[i] == kMasked;
    if (masked && got[i] != 0) {
      measures.problem("per_token_nll: a value at a masked target (" + place() + ")");
    }
    if (masked != std::isnan(expected[i])) {
      measures.problem(fmt::format("per_token_nll: the target is {} but expected {} ({})",
                                   masked ? "masked" : "scored", masked ? "scored" : "masked",
                                   place()));
    } else if (!masked) {
      const double difference = std::abs(static_cast<double>(got[i]) - expected[i]);
      if (std::isnan(difference) || difference > worst) worst = difference;
    }
  }
  measures.compare("per_token_nll", worst, tolerance.per_token_nll, "");
}

void check_auxiliary(const Case& c, const std::string& kind, const std::vector<at::Tensor>& got,
                     double tolerance, Measures& measures) {
  const auto expected =
      numbers(json_get<Json>(c.expected, kind.c_str(), c.where), kind, c.where, got.size());
  for (std::size_t e = 0; e < got.size(); ++e) {
    const double difference = std::abs(got[e].item<double>() - expected[e]);
    measures.compare(kind, difference / std::max(1.0, std::abs(expected[e])), tolerance,
                     fmt::format("executed layer {}", e + 1));
  }
}

void check_experts(const Case& c, const Forward& out, Measures& measures) {
  const auto n = static_cast<std::size_t>(c.batch.size());
  const auto k = static_cast<std::size_t>(out.routing.front().experts.size(1));
  const auto expected = numbers(json_get<Json>(c.expected, "experts", c.where), "experts", c.where,
                                out.routing.size() * n * k);
  double wrong = 0;
  for (std::size_t e = 0; e < out.routing.size(); ++e) {
    const auto* got = out.routing[e].experts.const_data_ptr<std::int64_t>();
    double wrong_here = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto* want = expected.data() + (e * n + i) * k;
      const std::set<std::int64_t> mine(got + i * k, got + (i + 1) * k);
      std::set<std::int64_t> theirs;
      for (std::size_t j = 0; j < k; ++j) theirs.insert(static_cast<std::int64_t>(want[j]));
      wrong_here += mine != theirs;
    }
    if (wrong_here > 0) {
      measures.problem(fmt::format(
          "experts: {} of {} tokens choose another set (executed layer {})", wrong_here, n, e + 1));
    }
    wrong += wrong_here;
  }
  measures.record("experts", wrong);
}

/// Compares the gradients of one scalar with the tensors `prefix`NAME, and their common norm.
void check_gradients(Case& c, const at::Tensor& scalar, const NamedTensors& parameters,
                     const std::string& prefix, const std::string& kind, double expected_norm,
                     const std::string& norm_kind, const Tolerance& tolerance, Measures& measures) {
  std::vector<at::Tensor> inputs;
  for (const auto& [name, tensor] : parameters) inputs.push_back(tensor);
  const auto grads = torch::autograd::grad({scalar}, inputs, {}, /*retain_graph=*/true,
                                           /*create_graph=*/false, /*allow_unused=*/true);
  double largest = 0, squares = 0;
  for (const auto& [name, tensor] : c.tensors) {
    if (name.rfind(prefix, 0) == 0) largest = std::max(largest, tensor.abs().max().item<double>());
  }
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const std::string name = prefix + parameters[i].first;
    const at::Tensor grad = grads[i].defined() ? grads[i] : at::zeros_like(inputs[i]);
    squares += grad.to(at::kDouble).square().sum().item<double>();
    const auto found = c.tensors.find(name);
    if (found == c.tensors.end()) {
      measures.problem(
          fmt::format("{}: tensor \"{}\" is missing in expected.safetensors", kind, name));
      continue;
    }
    const at::Tensor expected = found->second;
    c.tensors.erase(found);
    if (expected.sizes() != grad.sizes()) {
      measures.problem(fmt::format("{}: tensor \"{}\": expected shape [{}], got [{}]", kind, name,
                                   fmt::join(expected.sizes().vec(), ", "),
                                   fmt::join(grad.sizes().vec(), ", ")));
      continue;
    }
    const double scale =
        std::max(expected.abs().max().item<double>(), largest * tolerance.small_gradient);
    const double difference = largest_difference(grad, expected);
    measures.compare(kind, difference == 0 ? 0 : difference / scale, tolerance.gradients, name);
  }
  measures.compare(norm_kind,
                   std::abs(std::sqrt(squares) - expected_norm) / std::abs(expected_norm),
                   tolerance.grad_norm, "");
}

void check_logits(Case& c, const at::Tensor& got, double tolerance, Measures& measures) {
  const auto found = c.tensors.find("logits");
  if (found == c.tensors.end()) {
    measures.problem("logits: tensor \"logits\" is missing in expected.safetensors");
    return;
  }
  const at::Tensor expected = found->second;
  c.tensors.erase(found);
  const std::vector<std::int64_t> shape = {c.batch.rows, c.batch.row_length, got.size(1)};
  if (expected.sizes().vec() != shape) {
    measures.problem(fmt::format("logits: expected shape [{}], got [{}]",
                                 fmt::join(expected.sizes().vec(), ", "), fmt::join(shape, ", ")));
    return;
  }
  measures.compare("logits", largest_difference(got.view(shape), expected), tolerance, "");
}

Case read_case(const std::filesystem::path& folder, std::int64_t vocab_size) {
  Case c;
  c.where = (folder / "expected.json").string();
  c.expected = read_json(c.where);
  check_schema(c.expected, c.where);
  for (auto& [name, tensor] : read_safetensors(folder / "expected.safetensors")) {
    c.tensors[name] = tensor;
  }
  const std::string tokens = (folder / "tokens.json").string();
  check_schema(read_json(tokens), tokens);
  c.batch = read_case_batch(folder, vocab_size);
  return c;
}

void compare_all(const std::filesystem::path& folder, const Decoder& source,
                 const Tolerance& tolerance, CaseResult& result) {
  Measures measures{result};
  Case c = read_case(folder, source.config.vocab_size);
  const Decoder decoder = clone(source);
  const NamedTensors parameters = named_parameters(decoder);
  for (const auto& [name, tensor] : parameters) tensor.requires_grad_(true);

  const Json& expected = c.expected;
  const Forward out = forward(decoder, c.batch);
  const at::Tensor sum = sum_nll(decoder, out.hidden, c.batch.targets);
  ObjectiveOptions options;
  const bool has_objective = expected.contains("objective");
  const Json objective = has_objective ? expected["objective"] : Json::object();
  if (has_objective) {
    options = {json_get<double>(objective, "lb_coef", c.where),
               json_get<double>(objective, "z_coef", c.where)};
  }
  const Losses all = losses(out, sum, c.batch.target_count, options);

  check_schedule(c, decoder, measures);
  const auto targets = json_get<std::int64_t>(expected, "targets", c.where);
  if (targets != c.batch.target_count) {
    measures.problem(fmt::format("targets: expected {}, got {}", targets, c.batch.target_count));
  }
  check_logits(c, logits(decoder, out.hidden), tolerance.logits, measures);
  check_tokens(c, token_nll(decoder, out.hidden, c.batch.targets), tolerance, measures);
  measures.compare("loss",
                   std::abs(all.loss.item<double>() - json_get<double>(expected, "loss", c.where)),
                   tolerance.loss, "");
  check_gradients(c, all.loss, parameters, "grad.", "gradients",
                  json_get<double>(expected, "grad_norm", c.where), "grad_norm", tolerance,
                  measures);
  check_auxiliary(c, "lb_loss", all.load_balance, tolerance.auxiliary, measures);
  check_auxiliary(c, "z_loss", all.z_loss, tolerance.auxiliary, measures);
  check_experts(c, out, measures);
  if (has_objective) {
    measures.compare(
        "objective",
        std::abs(all.objective.item<double>() - json_get<double>(objective, "value", c.where)),
        tolerance.loss, "");
    check_gradients(c, all.objective, parameters, "objective_grad.", "objective_gradients",
                    json_get<double>(objective, "grad_norm", c.where), "objective_grad_norm",
                    tolerance, measures);
  }
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : c.tensors) unexpected.push_back(name);
  std::sort(unexpected.begin(), unexpected.end());
  for (const std::string& name : unexpected) {
    measures.problem(fmt::format("tensor \"{}\" in expected.safetensors is unexpected", name));
  }
}

void add_lines(const std::string& text, std::vector<std::string>& lines) {
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

template <class Load>
CaseResult run_case(const std::filesystem::path& folder, const Tolerance& tolerance,
                    const Load& load) {
  CaseResult result;
  const std::filesystem::path plain = (folder / "").lexically_normal().parent_path();
  result.name = plain.filename().string();
  if (std::filesystem::exists(folder / "probes.json") &&
      !std::filesystem::exists(folder / "expected.json")) {
    result.note = "a probe case (probes.json, no expected.json): nothing to check here";
    return result;
  }
  try {
    if (!std::filesystem::is_directory(folder)) {
      throw Error("model", "no such case folder", folder.string());
    }
    compare_all(folder, load(), tolerance, result);
  } catch (const c10::Error& error) {
    result.problems.push_back(error.what_without_backtrace());
  } catch (const std::exception& error) {
    add_lines(error.what(), result.problems);
  }
  result.passed = result.problems.empty();
  return result;
}

}  // namespace

Batch read_case_batch(const std::filesystem::path& folder, std::int64_t vocab_size) {
  const std::filesystem::path file = folder / "tokens.json";
  const Json json = read_json(file);
  using Rows = std::vector<std::vector<std::int64_t>>;
  const auto tokens = json_get<Rows>(json, "tokens", file.string());
  const auto segments = json_get<Rows>(json, "segment_ids", file.string());
  const std::size_t length = tokens.empty() ? 0 : tokens.front().size();
  const auto flatten = [&](const Rows& rows, const char* key) {
    std::vector<std::int64_t> flat;
    for (const auto& row : rows) {
      if (row.size() != length) {
        throw Error("model",
                    fmt::format("\"{}\": rows of {} and {} entries", key, length, row.size()),
                    file.string());
      }
      flat.insert(flat.end(), row.begin(), row.end());
    }
    return flat;
  };
  try {
    return make_batch(flatten(tokens, "tokens"), flatten(segments, "segment_ids"),
                      static_cast<std::int64_t>(tokens.size()), static_cast<std::int64_t>(length),
                      vocab_size);
  } catch (const Error& error) {
    throw Error({std::string(error.what()) + " (" + file.string() + ")"});
  }
}

CaseResult check_case(const std::filesystem::path& folder, const Tolerance& tolerance) {
  return run_case(folder, tolerance, [&] { return load_decoder(folder); });
}

CaseResult check_case(const std::filesystem::path& folder, const Decoder& decoder,
                      const Tolerance& tolerance) {
  return run_case(folder, tolerance, [&] { return decoder; });
}

Json to_json(const CaseResult& result) {
  Json json;
  json["case"] = result.name;
  json["passed"] = result.note.empty() ? Json(result.passed) : Json(nullptr);
  json["worst"] = Json::object();
  for (const auto& [kind, worst] : result.worst) json["worst"][kind] = worst;
  json["problems"] = result.problems;
  if (!result.note.empty()) json["note"] = result.note;
  return json;
}

}  // namespace smelt::model
