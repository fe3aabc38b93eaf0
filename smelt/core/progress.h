// What long work tells the outside while it runs.  The library only calls these; programs decide
// what to print (a line that rewrites itself on a terminal, plain lines otherwise).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace smelt {

/// One state of a piece of long work.
struct ProgressEvent {
  std::string task;  // "train quick-s1-baseline"
  double done = 0;   // in `unit`
  double total = 0;  // 0 = unknown
  std::string unit;  // "tokens"
  std::string note;  // "loss 3.214"
};

using ProgressSink = std::function<void(const ProgressEvent&)>;

/// Where warnings and milestones go, one line each, without newline.
using LogSink = std::function<void(const std::string&)>;

/// Turns events into lines on stderr: at most 10 a second on a terminal (one rewritten line with
/// rate and ETA), else one plain line every `plain_seconds`.
class ProgressLine {
 public:
  explicit ProgressLine(double plain_seconds = 10);
  ~ProgressLine();
  void operator()(const ProgressEvent& event);
  /// Prints a line of its own, above the progress line.
  void log(const std::string& line);
  /// Ends the rewritten line, if one is open.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  double plain_seconds_;
  bool open_ = false;
  std::string task_;
  bool complete_ = false;  // its last line is printed
  Clock::time_point task_start_;
  double task_first_done_ = 0;
  Clock::time_point last_print_;
};

}  // namespace smelt
