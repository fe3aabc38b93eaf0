#include "smelt/study/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "smelt/core/error.h"
#include "smelt/core/json.h"

namespace smelt::study {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(20);
constexpr int kPollsPerProgress = 25;

/// The step and loss of the last whole line of a metrics file, read from its end.
std::optional<std::pair<std::int64_t, double>> last_metrics(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return std::nullopt;
  constexpr std::streamoff kTail = 16384;
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - kTail));
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto end = text.rfind('\n');
  if (end == std::string::npos) return std::nullopt;
  const auto begin = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::string line = text.substr(begin == std::string::npos ? 0 : begin + 1, end);
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("step")) return std::nullopt;
  const Json loss = json.value("loss", Json());
  return std::pair(json["step"].get<std::int64_t>(), loss.is_number() ? loss.get<double>() : 0.0);
}

/// Whether a training run told that it diverged.
bool is_diverged(const std::filesystem::path& output) {
  std::ifstream in(output);
  const Json json = Json::parse(in, nullptr, false);
  return json.is_object() && json.value("status", Json()) == Json("diverged");
}

/// A task on its way.
struct Running {
  std::size_t task = 0;
  std::size_t step = 0;
  Child child;
};

class Runner {
 public:
  Runner(const std::vector<Task>& tasks, const TaskOptions& options)
      : tasks_(tasks), options_(options) {
    for (const Task& task : tasks) {
      for (const Step& step : task.steps) total_work_ += step.work;
    }
  }

  TasksStatus run() {
    int polls = 0;
    while (true) {
      if (!stopping_ && options_.signal && options_.signal() != 0) stop();
      fill();
      if (running_.empty()) break;
      std::this_thread::sleep_for(kPollInterval);
      collect();
      if (++polls % kPollsPerProgress == 0) show();
    }
    if (failure_) throw Error(*failure_);
    return stopping_ ? TasksStatus::kInterrupted : TasksStatus::kDone;
  }

 private:
  void stop() {
    stopping_ = true;
    for (const Running& r : running_) ask_to_end(r.child);
  }

  /// Starts tasks while there are places.
  void fill() {
    while (!stopping_ && running_.size() < static_cast<std::size_t>(options_.parallel) &&
           next_ < tasks_.size()) {
      Running r;
      r.task = next_++;
      if (advance(r)) running_.push_back(r);
    }
  }

  /// Starts the first step from r.step on that is not done; false when the task has ended.
  bool advance(Running& r) {
    const Task& task = tasks_[r.task];
    for (; r.step < task.steps.size(); ++r.step) {
      const Step& step = task.steps[r.step];
      if (!std::filesystem::exists(step.output)) {
        if (stopping_) return false;
        r.child = start(step.command());
        return true;
      }
      finish(step);
      if (step.may_diverge && is_diverged(step.output)) break;
    }
    return false;
  }

  void finish(const Step& step) {
    done_work_ += step.work;
    if (step.done) step.done();
  }

  void collect() {
    for (std::size_t i = 0; i < running_.size();) {
      Running& r = running_[i];
      const auto code = poll(r.child);
      if (!code) {
        ++i;
        continue;
      }
      bool goes_on = false;
      const Step& step = tasks_[r.task].steps[r.step];
      if (*code == 0 || (step.may_diverge && is_diverged(partial_output(r.child.command)))) {
        keep_output(r.child.command);
        goes_on = advance(r);
      } else if (!stopping_) {
        fail(r, *code);
      }
      if (goes_on) {
        ++i;
      } else {
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  void fail(const Running& r, int code) {
    const std::string line = last_log_line(r.child.command.log);
    failure_ = Error(
        "study", fmt::format("{} ended with exit status {}: {}", tasks_[r.task].name, code, line),
        r.child.command.log.string());
    stop();
  }

  void show() {
    if (!options_.progress) return;
    double done = done_work_;
    std::string note;
    for (const Running& r : running_) {
      const Step& step = tasks_[r.task].steps[r.step];
      if (step.metrics.empty() || step.last <= step.first) continue;
      const auto at = last_metrics(step.metrics);
      if (!at) continue;
      const double share =
          static_cast<double>(at->first - step.first) / static_cast<double>(step.last - step.first);
      done += step.work * std::clamp(share, 0.0, 1.0);
      note += fmt::format("{}{} step {}/{} loss {:.3f}", note.empty() ? "" : "; ",
                          tasks_[r.task].name, at->first, step.last, at->second);
    }
    options_.progress(
        {.task = options_.stage, .done = done, .total = total_work_, .unit = "FLOP", .note = note});
  }

  const std::vector<Task>& tasks_;
  const TaskOptions& options_;
  std::vector<Running> running_;
  std::size_t next_ = 0;
  double total_work_ = 0, done_work_ = 0;
  bool stopping_ = false;
  std::optional<Error> failure_;
};

}  // namespace

TasksStatus run_tasks(const std::vector<Task>& tasks, const TaskOptions& options) {
  return Runner(tasks, options).run();
}

}  // namespace smelt::study
