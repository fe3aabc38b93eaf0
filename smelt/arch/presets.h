// Models by name: the grid of the paper (2609.01343, appendix; geometry reconstructed from its
// figures).
//
//   ModelConfig model = find_model_config("paper/200M-S95-baseline");   // or a file
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "smelt/arch/model_config.h"

namespace smelt::arch {

/// The 28 cells of the paper whose geometry its figures determine,
/// "paper/<scale>-<sparsity>-<arm>".
std::vector<std::string> preset_names();

/// Nothing when the name is none of them.  The paper's vocabulary is not published: `vocab_size` is
/// 0, and no count of its grid depends on it.  Its counts leave q/k norms out.
std::optional<ModelConfig> preset(const std::string& name);

/// A preset by its name, else the config.json at that path.  Throws Error; for a name that starts
/// with "paper/" it lists the presets.
ModelConfig find_model_config(const std::string& name_or_file);

}  // namespace smelt::arch
