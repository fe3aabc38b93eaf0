// Child processes: a command with its stdout in a file, its stderr in a log, that dies with its
// parent.
//
//   Child child = start(command);
//   if (auto code = poll(child)) …            // exit status, 128 + n for signal n
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace smelt::study {

struct Command {
  std::vector<std::string> arguments;  // [0] is the program
  std::filesystem::path output;        // stdout goes here, through a file aside: whole or not there
  std::filesystem::path log;           // stderr is appended here
  int threads = 1;                     // OMP_NUM_THREADS
};

struct Child {
  pid_t pid = -1;
  Command command;
};

/// Throws Error when the program cannot be started.
Child start(const Command& command);

/// The exit status once the child has ended.
std::optional<int> poll(Child& child);

/// Where a command's stdout is until `keep_output` puts it in place.
std::filesystem::path partial_output(const Command& command);
void keep_output(const Command& command);

/// Asks the child to save and end (SIGTERM).
void ask_to_end(const Child& child);

/// The last line that a command wrote to its log, for messages.
std::string last_log_line(const std::filesystem::path& log);

}  // namespace smelt::study
