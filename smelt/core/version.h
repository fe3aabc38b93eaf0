// What this build is: for `--version` and for the provenance of results.
#pragma once

#include <string>

namespace smelt {

/// "0.1.0".
std::string version();

/// The commit built from, with "+changes" when the tree had others; "unknown" outside a git
/// checkout.
std::string commit();

}  // namespace smelt
