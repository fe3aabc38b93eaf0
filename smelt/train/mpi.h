// Collectives over MPI, where the build found it.
#pragma once

#include <memory>

#include "smelt/train/collectives.h"

namespace smelt::train {

/// Starts MPI in this process (it ends with the object).  Throws Error in a build without it.
std::unique_ptr<Collectives> mpi_ranks();

}  // namespace smelt::train
