// Runs a study's tasks side by side.  A task is a list of steps done one after the other in one
// place; a step is a command that leaves a file, and is skipped when the file is there, so that a
// study that was stopped anywhere goes on where it was.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "smelt/core/progress.h"
#include "smelt/study/process.h"

namespace smelt::study {

struct Step {
  std::function<Command()>
      command;                   // made when its turn has come: it may read what earlier steps left
  std::filesystem::path output;  // there = done
  bool may_diverge = false;      // a diverged training run ends its task, but fails nothing
  double work = 0;               // FLOPs, for progress
  std::filesystem::path metrics;     // metrics.jsonl that grows while it runs; may be empty
  std::int64_t first = 0, last = 0;  // training steps behind which it starts and with which it ends
  std::function<void()> done;        // called when it has ended or was there already; may be empty
};

struct Task {
  std::string name;
  std::vector<Step> steps;
};

struct TaskOptions {
  std::string stage;  // for progress: "rates"
  int parallel = 1;
  ProgressSink progress;
  std::function<int()> signal;  // 0, or the signal that asks to stop
};

enum class TasksStatus { kDone, kInterrupted };

/// Throws Error naming the task and the last line of its log when one fails; the others are asked
/// to save and waited for first.
TasksStatus run_tasks(const std::vector<Task>& tasks, const TaskOptions& options);

}  // namespace smelt::study
