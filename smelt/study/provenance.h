// Where and with what a study was run.
#pragma once

#include <string>

#include "smelt/core/json.h"

namespace smelt::study {

/// {"cpu", "cores", "memory_gib"} of this machine.
Json machine();

/// UTC time as "2026-01-31T12:00:00Z".
std::string utc_now();

}  // namespace smelt::study
