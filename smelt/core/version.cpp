#include "smelt/core/version.h"

#include "smelt_commit.h"

namespace smelt {

std::string version() {
  return SMELT_VERSION;
}

std::string commit() {
  return SMELT_COMMIT;
}

}  // namespace smelt
