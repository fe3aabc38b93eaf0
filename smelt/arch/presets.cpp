#include "smelt/arch/presets.h"

#include <filesystem>

namespace smelt::arch {
namespace {

struct PaperCell {
  const char* name;
  std::int64_t hidden, layers, heads, head_dim, experts, expert_width;
};

constexpr PaperCell kPaperCells[] = {
    {"100M-S0-baseline", 672, 10, 6, 112, 8, 544},
    {"100M-S85-baseline", 672, 10, 6, 112, 64, 544},
    {"100M-S85-smelt", 576, 10, 8, 72, 96, 424},
    {"100M-S95-baseline", 672, 10, 6, 112, 192, 544},
    {"100M-S95-smelt", 576, 10, 8, 72, 288, 424},
    {"100M-S97-baseline", 672, 10, 6, 112, 336, 544},
    {"100M-S97-smelt", 576, 10, 8, 72, 504, 424},
    {"200M-S0-baseline", 1280, 12, 10, 128, 8, 432},
    {"200M-S85-baseline", 1280, 12, 10, 128, 64, 432},
    {"200M-S85-smelt", 1056, 12, 12, 88, 96, 352},
    {"200M-S95-baseline", 1280, 12, 10, 128, 192, 432},
    {"200M-S95-smelt", 1056, 12, 12, 88, 288, 352},
    {"200M-S97-baseline", 1280, 12, 10, 128, 336, 432},
    {"200M-S97-smelt", 1056, 12, 12, 88, 504, 352},
    {"600M-S0-baseline", 1792, 20, 14, 128, 8, 600},
    {"600M-S85-baseline", 1792, 20, 14, 128, 64, 600},
    {"600M-S85-smelt", 1408, 20, 16, 88, 96, 520},
    {"600M-S95-baseline", 1792, 20, 14, 128, 192, 600},
    {"600M-S95-smelt", 1512, 20, 18, 84, 288, 472},
    {"600M-S97-baseline", 1792, 20, 14, 128, 336, 600},
    {"600M-S97-smelt", 1512, 20, 18, 84, 504, 472},
    {"1.6B-S0-baseline", 2304, 30, 18, 128, 8, 768},
    {"1.6B-S85-baseline", 2304, 30, 18, 128, 64, 768},
    {"1.6B-S85-smelt", 1848, 30, 22, 84, 96, 640},
    {"1.6B-S95-baseline", 2304, 30, 18, 128, 192, 768},
    {"1.6B-S95-smelt", 1848, 30, 22, 84, 288, 640},
    {"1.6B-S97-baseline", 2304, 30, 18, 128, 336, 768},
    {"1.6B-S97-smelt", 1848, 30, 22, 84, 504, 640},
};

constexpr const char* kPrefix = "paper/";

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const PaperCell& cell : kPaperCells) names.push_back(kPrefix + std::string(cell.name));
  return names;
}

std::optional<ModelConfig> preset(const std::string& name) {
  for (const PaperCell& cell : kPaperCells) {
    if (name != kPrefix + std::string(cell.name)) continue;
    ModelConfig model;
    model.hidden_size = cell.hidden;
    model.num_hidden_layers = cell.layers;
    model.num_attention_heads = cell.heads;
    model.num_key_value_heads = 2;
    model.head_dim = cell.head_dim;
    model.moe_intermediate_size = cell.expert_width;
    model.num_experts = cell.experts;
    model.num_experts_per_tok = 8;
    model.norm_topk_prob = true;
    model.qk_norm = false;
    if (name.ends_with("-smelt")) model.loop = middle_loop(cell.layers, cell.layers / 2, 2);
    return model;
  }
  return std::nullopt;
}

ModelConfig find_model_config(const std::string& name_or_file) {
  if (auto model = preset(name_or_file)) return *model;
  if (name_or_file.starts_with(kPrefix) && !std::filesystem::exists(name_or_file)) {
    throw Error("arch",
                "no preset \"" + name_or_file + "\": expected " + join_choices(preset_names()));
  }
  return read_model_config(name_or_file);
}

}  // namespace smelt::arch
