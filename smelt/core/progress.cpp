#include "smelt/core/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "smelt/core/table.h"

namespace smelt {

ProgressLine::ProgressLine(double plain_seconds)
    : terminal_(::isatty(STDERR_FILENO) != 0), plain_seconds_(plain_seconds) {}

ProgressLine::~ProgressLine() {
  finish();
}

void ProgressLine::operator()(const ProgressEvent& event) {
  const auto now = Clock::now();
  const auto since = [now](Clock::time_point then) {
    return std::chrono::duration<double>(now - then).count();
  };
  const bool first = event.task != task_;
  if (first) {
    finish();
    task_ = event.task;
    task_start_ = now;
    task_first_done_ = event.done;
    complete_ = false;
  }
  const bool last = event.total > 0 && event.done >= event.total;
  if (last && complete_) return;
  complete_ = last;
  if (!first && !last && since(last_print_) < (terminal_ ? 0.1 : plain_seconds_)) return;
  last_print_ = now;

  std::string line = event.task;
  if (event.total > 0) line += fmt::format("  {:3.0f} %", 100 * event.done / event.total);
  line += fmt::format("  {}{} {}", with_si(event.done),
                      event.total > 0 ? " / " + with_si(event.total) : "", event.unit);
  const double seconds = since(task_start_);
  const double rate = seconds > 0 ? (event.done - task_first_done_) / seconds : 0;
  if (rate > 0) {
    line += fmt::format("  {}/s", with_si(rate));
    if (event.total > event.done) {
      line += "  ETA " + duration_text((event.total - event.done) / rate);
    }
  }
  if (!event.note.empty()) line += "  " + event.note;
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    open_ = true;
    if (last) finish();
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

void ProgressLine::log(const std::string& line) {
  if (open_) std::fprintf(stderr, "\r\033[K");
  std::fprintf(stderr, "%s\n", line.c_str());
  std::fflush(stderr);
}

void ProgressLine::finish() {
  if (open_) std::fprintf(stderr, "\n");
  open_ = false;
}

}  // namespace smelt
