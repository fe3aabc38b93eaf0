// Where the time of a step goes: what LibTorch and the kernels of model/ did, as a trace and as a
// table.
//
//   Profile profile;
//   for (…) stepper.advance(state);
//   std::vector<ProfileRow> rows = profile.stop("trace.json");   // chrome://tracing, Perfetto
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace smelt::train {

/// A kernel of ours, forward or backward: "experts backward".
struct ProfileRow {
  std::string name;
  double seconds = 0;
  std::int64_t calls = 0;
};

/// Records from construction on what this thread does (and autograd for it).  One at a time.
class Profile {
 public:
  Profile();
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  /// Ends the recording and writes it to `file` in Chrome's format; returns our kernels, the
  /// longest first.  Throws Error when the file cannot be written.
  std::vector<ProfileRow> stop(const std::filesystem::path& file);

 private:
  bool running_ = true;
};

}  // namespace smelt::train
