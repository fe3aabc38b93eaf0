#include "smelt/study/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "smelt/core/error.h"
#include "smelt/core/file.h"

namespace smelt::study {
namespace {

/// The environment with the thread counts of the numeric libraries set.
std::vector<std::string> environment(int threads) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!text.starts_with("OMP_NUM_THREADS=") && !text.starts_with("MKL_NUM_THREADS=")) {
      entries.push_back(text);
    }
  }
  entries.push_back("OMP_NUM_THREADS=" + std::to_string(threads));
  entries.push_back("MKL_NUM_THREADS=" + std::to_string(threads));
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Child start(const Command& command) {
  make_folder(command.output.parent_path());
  make_folder(command.log.parent_path());
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> variables = environment(command.threads);
  const std::vector<char*> argv = pointers(arguments), envp = pointers(variables);
  const int out =
      ::open(partial_output(command).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const int log = ::open(command.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const pid_t parent = ::getpid();
  const pid_t pid = out < 0 || log < 0 ? -1 : ::fork();
  if (pid == 0) {
    // A process group of its own: Ctrl-C reaches the study, which passes it on once.
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  const int code = errno;
  if (out >= 0) ::close(out);
  if (log >= 0) ::close(log);
  if (pid < 0) {
    throw Error("study", "cannot start: " + std::string(std::strerror(code)), command.arguments[0]);
  }
  return {pid, command};
}

std::optional<int> poll(Child& child) {
  int status = 0;
  const pid_t ended = ::waitpid(child.pid, &status, WNOHANG);
  if (ended != child.pid) return std::nullopt;
  child.pid = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::filesystem::path partial_output(const Command& command) {
  return command.output.string() + ".partial";
}

void keep_output(const Command& command) {
  sync_to_disk(partial_output(command));
  std::filesystem::rename(partial_output(command), command.output);
}

void ask_to_end(const Child& child) {
  if (child.pid > 0) ::kill(child.pid, SIGTERM);
}

std::string last_log_line(const std::filesystem::path& log) {
  std::string text;
  try {
    text = read_file(log);
  } catch (const Error&) {
    return "";
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const auto at = text.rfind('\n');
  return at == std::string::npos ? text : text.substr(at + 1);
}

}  // namespace smelt::study
