// metrics.jsonl: one JSON object per step, evaluations as lines of their own.
//
//   {"step":1,"tokens":2048,"loss":8.31,"objective":…,"load_balance":…,"z_loss":…,"lr":…,"grad_norm":…,"seconds":…,…}
//   {"step":100,"eval":{…}}
//
// Each line is handed to the system at once, so that a killed run keeps it; a resumed run first
// cuts off what lies behind its checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "smelt/core/json.h"

namespace smelt::train {

/// The numbers of a line as TensorBoard's scalars: "train/loss", "domains/Code", "router/layer 3,
/// visit 2/max_load", "eval/loss", ….
std::vector<std::pair<std::string, double>> scalars(const Json& line);

class MetricsFile {
 public:
  /// Opens for appending; lines of steps above `step`, and a line cut short, are removed first.
  MetricsFile(std::filesystem::path file, std::int64_t step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Throws Error when the line cannot be written whole (no space); it is then kept and written
  /// before the next one.
  void append(const Json& line);
  /// To disk.
  void sync();
  /// Whether the file has an evaluation of the step it was opened at.
  bool has_evaluation() const { return has_evaluation_; }

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
  bool has_evaluation_ = false;
  std::string pending_;    // lines not yet written
  std::size_t bytes_ = 0;  // of the file, whole lines
};

}  // namespace smelt::train
