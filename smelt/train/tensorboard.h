// Scalars as TensorBoard event files: TFRecords of protocol buffers, written by hand.
//
//   EventFile events(RUN / "tensorboard", resumed_behind_step);
//   events.add(step, {{"loss", 8.31}, {"lr", 0.002}});
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace smelt::train {

class EventFile {
 public:
  /// A new file in `folder`; TensorBoard drops what earlier files hold behind `step`.  Throws Error
  /// when it cannot be written.
  EventFile(const std::filesystem::path& folder, std::int64_t step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void add(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

 private:
  void write_record(const std::string& event);

  std::filesystem::path file_;
  int descriptor_ = -1;
};

/// CRC-32C (Castagnoli), RFC 3720.
std::uint32_t crc32c(const std::string& bytes);

}  // namespace smelt::train
