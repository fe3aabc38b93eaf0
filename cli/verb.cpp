#include "cli/verb.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <string_view>

#include "smelt/core/error.h"
#include "smelt/core/version.h"

namespace smelt::cli {
namespace {

std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_signal(int number) {
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, number)) ::_exit(128 + number);
}

/// Replaces this process by smelt-torch, which lives beside it and knows the verbs that need
/// LibTorch.
int run_torch_program(char** argv) {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path program = self.parent_path() / "smelt-torch";
  ::execv(program.c_str(), argv);
  std::fprintf(stderr, "[cli] \"%s\" needs the program %s: %s\n", argv[1], program.c_str(),
               std::strerror(errno));
  return 1;
}

void print_failure(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
}

/// CLI11's own message, shortened to one line, and where to look further.
int usage_failure(const CLI::App& program, const CLI::ParseError& error) {
  std::string verb;
  for (const CLI::App* used : program.get_subcommands()) verb += " " + used->get_name();
  std::string what = error.what();
  // CLI11's "Could not convert: --flag = text": every flag that converts is a number.
  const std::string_view converting = "Could not convert: ";
  if (const auto equals = what.find(" = "); what.starts_with(converting) && equals != what.npos) {
    what = what.substr(converting.size(), equals - converting.size()) +
           ": expected a number, got " + clipped(what.substr(equals + 3));
  }
  print_failure("[cli] " + what + "; see smelt" + verb + " --help");
  return 2;
}

int unknown_verb(const std::string& word, const std::vector<VerbEntry>& verbs) {
  std::vector<std::string> names;
  names.reserve(verbs.size());
  for (const VerbEntry& verb : verbs) names.emplace_back(verb.name);
  const std::string guess = nearest(word, names);
  print_failure("[cli] unknown verb \"" + word + "\"" +
                (guess.empty() ? "" : "; did you mean \"" + guess + "\"?") + " (see smelt --help)");
  return 2;
}

}  // namespace

CLI::App& new_verb(CLI::App& program, Session& session, const std::string& name,
                   const std::string& summary, const std::string& example) {
  CLI::App* verb = program.add_subcommand(name, summary);
  verb->add_flag("--json", session.json, "print one JSON object on stdout");
  verb->footer("Example:\n  " + example);
  return *verb;
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error("cli", std::string("cannot write to stdout: ") + std::strerror(errno));
  }
}

void print_json(const Json& json) {
  print(to_text(json));
}

void print_result(const Session& session, const Json& json, const std::string& text) {
  print(session.json ? to_text(json) : text);
}

void warn(Session& session, const std::string& message) {
  session.progress.log("! " + message);
}

void watch_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int signal_seen() {
  return first_signal.load();
}

int run_program(int argc, char** argv, const std::vector<VerbEntry>& verbs) {
  if (argc > 1 && argv[1][0] != '-') {
    const auto named = [argv](const VerbEntry& verb) {
      return std::strcmp(argv[1], verb.name) == 0;
    };
    const auto verb = std::find_if(verbs.begin(), verbs.end(), named);
    if (verb == verbs.end()) return unknown_verb(argv[1], verbs);
    if (!verb->add) return run_torch_program(argv);
  }
  // An unset variable of a shell script, mostly; only a text may be empty.
  for (int i = 1; i < argc; ++i) {
    const std::string_view text = argv[i], before = argv[i - 1];
    if (!text.empty() && !(text.starts_with("--") && text.ends_with('='))) continue;
    if (before == "--text" || before == "--prompt" || text == "--text=" || text == "--prompt=") {
      continue;
    }
    print_failure("[cli] argument " + std::to_string(i) +
                  (text.empty() ? "" : " (" + std::string(text) + ")") + " is empty");
    return 2;
  }
  Session session;
  session.program = argv[0];
  CLI::App program(
      "smelt: does looping pay for an MoE Transformer at equal cost, and how much compute does it "
      "save?",
      "smelt");
  program.set_version_flag("--version", version() + " (" + commit() + ")");
  program.require_subcommand(1);
  program.failure_message(
      [](const CLI::App*, const CLI::Error& e) { return std::string(e.what()); });
  for (const VerbEntry& verb : verbs) {
    if (verb.add) {
      verb.add(program, session);
    } else {
      program.add_subcommand(verb.name, verb.summary);
    }
  }
  try {
    program.parse(argc, argv);
    session.progress.finish();
    std::fflush(stdout);
    return session.exit_code;
  } catch (const CLI::Success& success) {  // --help, --version
    return program.exit(success);
  } catch (const CLI::ParseError& error) {
    return usage_failure(program, error);
  } catch (const std::bad_alloc&) {
    session.progress.finish();
    print_failure("[cli] out of memory");
  } catch (const Error& error) {
    session.progress.finish();
    print_failure(error.what());
  } catch (const std::exception&
               error) {  // a library's; LibTorch adds a stack trace after the first line
    session.progress.finish();
    const std::string text = error.what();
    print_failure("[cli] " + text.substr(0, text.find('\n')));
  }
  return 1;
}

}  // namespace smelt::cli
