// Hugging Face model types: what their config.json calls things, the defaults of the keys it leaves
// out, and what a type does without a key for it.
//
//   const Dialect* dialect = find_dialect("mixtral");
//   dialect->names;     // {"num_experts": "num_local_experts", …}
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smelt::arch {

struct Dialect {
  const char* model_type;
  /// JSON: the type's own keys with Hugging Face's defaults.  A ModelConfig key that is neither
  /// here nor in `implied` is unknown to the type; null: derived (head_dim = hidden / heads).
  const char* defaults;
  const char* names;    // JSON: ModelConfig key → the type's key, where they differ
  const char* implied;  // JSON: ModelConfig keys that the type fixes
};

/// Null when the type is unknown.  "smelt" reads every ModelConfig key and needs the sizes.
const Dialect* find_dialect(std::string_view model_type);
std::vector<std::string> dialect_names();

}  // namespace smelt::arch
