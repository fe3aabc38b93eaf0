#include "smelt/study/provenance.h"

#include <unistd.h>

#include <cmath>
#include <ctime>
#include <fstream>

#include "smelt/core/parallel.h"

namespace smelt::study {

Json machine() {
  std::string cpu = "unknown";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) {
      cpu = line.substr(line.find(':') + 2);
      break;
    }
  }
  const double bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                       static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  return {{"cpu", cpu},
          {"cores", available_cores()},
          {"memory_gib", std::round(bytes / (1 << 30) * 10) / 10}};
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace smelt::study
