#include "smelt/model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <unordered_map>

#include "smelt/core/error.h"
#include "smelt/core/file.h"
#include "smelt/core/json.h"
#include "smelt/core/philox.h"
#include "smelt/model/threads.h"

namespace smelt::model {
namespace {

bool ends_with(const std::string& name, std::string_view end) {
  return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

void refuse_what_is_only_counted(const arch::ModelConfig& config, const std::string& where) {
  const std::vector<std::string> beyond = arch::beyond_engine(config);
  if (beyond.empty()) return;
  throw Error("model",
              fmt::format("this model can be counted and matched, but not run: it has {}",
                          fmt::join(beyond, "; ")),
              where);
}

/// The decoder whose parameters, in the order of parameter_shapes, are `tensors`.
Decoder assemble(const arch::ModelConfig& config, const std::vector<at::Tensor>& tensors) {
  Decoder decoder;
  decoder.config = config;
  decoder.schedule = arch::make_schedule(config);
  auto next = tensors.begin();
  decoder.embed = *next++;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    LayerWeights w;
    w.input_norm = *next++;
    w.q_proj = *next++;
    w.k_proj = *next++;
    w.v_proj = *next++;
    w.o_proj = *next++;
    if (config.qk_norm) {
      w.q_norm = *next++;
      w.k_norm = *next++;
    }
    w.post_attention_norm = *next++;
    w.gate = *next++;
    w.gate_up = *next++;
    w.down = *next++;
    decoder.layers.push_back(std::move(w));
  }
  decoder.final_norm = *next++;
  decoder.head = config.tie_word_embeddings ? decoder.embed : *next++;
  return decoder;
}

}  // namespace

Decoder decoder_from_tensors(const arch::ModelConfig& config, const NamedTensors& tensors,
                             const std::string& where) {
  refuse_what_is_only_counted(config, where);
  Problems problems("model", where);
  std::unordered_map<std::string, at::Tensor> given(tensors.begin(), tensors.end());
  const auto take = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    const auto found = given.find(name);
    if (found == given.end()) {
      problems.add(fmt::format("tensor \"{}\" is missing", name));
      return at::Tensor();
    }
    const at::Tensor tensor = found->second;
    given.erase(found);
    if (tensor.sizes().vec() != shape) {
      problems.add(fmt::format("tensor \"{}\": expected shape [{}], got [{}]", name,
                               fmt::join(shape, ", "), fmt::join(tensor.sizes().vec(), ", ")));
    } else if (!tensor.is_floating_point()) {
      problems.add(fmt::format("tensor \"{}\": expected floating point numbers", name));
    }
    return tensor.detach().to(at::kFloat).contiguous();
  };
  const bool biased = given.contains(bias_name(0));  // then all routers are
  std::vector<at::Tensor> ordered, biases;
  for (const auto& [name, shape] : parameter_shapes(config)) ordered.push_back(take(name, shape));
  const arch::LoopSchedule schedule = arch::make_schedule(config);
  for (std::int64_t i = 0; biased && i < config.num_hidden_layers; ++i) {
    const auto layer = static_cast<std::size_t>(i);
    std::vector<std::int64_t> shape = {visits_of(schedule, layer), config.num_experts};
    if (shape[0] == 1) shape.erase(shape.begin());
    biases.push_back(take(bias_name(layer), shape));
  }
  for (const auto& [name, tensor] : tensors) {
    if (given.contains(name)) problems.add(fmt::format("tensor \"{}\" is unexpected", name));
  }
  problems.throw_if_any();
  Decoder decoder = assemble(config, ordered);
  for (std::size_t i = 0; i < biases.size(); ++i) {
    decoder.layers[i].gate_bias = biases[i].view({-1, config.num_experts});
  }
  return decoder;
}

Decoder load_decoder(const std::filesystem::path& folder) {
  const arch::ModelConfig config = arch::read_model_config(folder / "config.json");
  const std::filesystem::path file = folder / "model.safetensors";
  return decoder_from_tensors(config, read_safetensors(file), file.string());
}

void save_decoder(const Decoder& decoder, const std::filesystem::path& folder) {
  write_file_atomic(folder / "config.json", to_text(arch::to_json(decoder.config)));
  write_safetensors(folder / "model.safetensors", named_state(decoder), {{"format", "pt"}});
}

double small_init_std(const arch::ModelConfig& config) {
  return std::sqrt(2.0 / (5.0 * static_cast<double>(config.hidden_size)));
}

Decoder init_decoder(const arch::ModelConfig& config, std::uint64_t seed, double init_std) {
  Problems problems("model", "init");
  arch::validate(config, problems);
  problems.throw_if_any();
  refuse_what_is_only_counted(config, "init");
  const double std = init_std > 0 ? init_std : small_init_std(config);
  const double into_stream = std / std::sqrt(2.0 * static_cast<double>(config.executed_layers()));
  std::vector<at::Tensor> tensors;
  for (const auto& [name, shape] : parameter_shapes(config)) {
    at::Tensor tensor = at::ones(shape, at::kFloat);
    tensors.push_back(tensor);
    if (ends_with(name, "norm.weight")) continue;
    const bool writes = ends_with(name, "o_proj.weight") || ends_with(name, "down_proj");
    const double deviation = writes ? into_stream : std;
    const Philox random(seed, "init/" + name);
    auto* out = tensor.mutable_data_ptr<float>();
    parallel_chunks(tensor.numel(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        out[i] = static_cast<float>(deviation * random.normal(static_cast<std::uint64_t>(i)));
      }
    });
  }
  return assemble(config, tensors);
}

Decoder clone(const Decoder& decoder) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named_parameters(decoder)) {
    tensors.push_back(tensor.detach().clone());
  }
  Decoder copy = assemble(decoder.config, tensors);
  copy.schedule = decoder.schedule;
  copy.precision = decoder.precision;
  for (std::size_t i = 0; i < copy.layers.size(); ++i) {
    const at::Tensor& bias = decoder.layers[i].gate_bias;
    if (bias.defined()) copy.layers[i].gate_bias = bias.clone();
  }
  return copy;
}

}  // namespace smelt::model
