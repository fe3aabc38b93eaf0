#include "smelt/train/profile.h"

#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>

#include "smelt/core/error.h"
#include "smelt/core/file.h"

namespace smelt::train {
namespace {

namespace profiler = torch::autograd::profiler;
namespace impl = torch::profiler::impl;

/// What our RECORD_FUNCTION names begin with.
constexpr std::string_view kOurs = "smelt::";

}  // namespace

Profile::Profile() {
  const impl::ProfilerConfig config(impl::ProfilerState::KINETO);
  const std::set<impl::ActivityType> activities = {impl::ActivityType::CPU};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities, {at::RecordScope::FUNCTION});
}

Profile::~Profile() {
  if (running_) profiler::disableProfiler();
}

std::vector<ProfileRow> Profile::stop(const std::filesystem::path& file) {
  const auto result = profiler::disableProfiler();
  running_ = false;
  // The profiler itself says nothing when it cannot write.
  write_file_atomic(file, "");
  result->save(file.string());
  if (read_file(file).empty())
    throw Error("train", "the trace could not be written", file.string());
  std::map<std::string, ProfileRow> rows;
  for (const profiler::KinetoEvent& event : result->events()) {
    const std::string name = event.name();
    if (!name.starts_with(kOurs)) continue;
    ProfileRow& row = rows[name];
    row.name = name.substr(kOurs.size());
    row.seconds += static_cast<double>(event.durationNs()) * 1e-9;
    ++row.calls;
  }
  std::vector<ProfileRow> sorted;
  for (auto& [name, row] : rows) sorted.push_back(std::move(row));
  std::sort(sorted.begin(), sorted.end(),
            [](const ProfileRow& a, const ProfileRow& b) { return a.seconds > b.seconds; });
  return sorted;
}

}  // namespace smelt::train
