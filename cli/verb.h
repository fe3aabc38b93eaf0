// How a verb of the command line is made: one file per verb, which declares its arguments and says
// what to do.  See budget.cpp for the simplest one.
//
//   void add_budget(CLI::App& program, Session& session) {
//     auto& verb = new_verb(program, session, "budget", "…", "smelt budget configs/tiny.json");
//     auto options = std::make_shared<Options>();
//     verb.add_option("CONFIG", options->config, "model config")->required();
//     verb.callback([&session, options] { … print_result(session, json, text) });
//   }
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "smelt/core/json.h"
#include "smelt/core/progress.h"

namespace smelt::cli {

/// What every verb shares: the output mode, the progress line, interruption.
struct Session {
  bool json = false;      // --json: one JSON object on stdout
  ProgressLine progress;  // on stderr
  int exit_code = 0;      // a verb that ran but failed its purpose (check beyond tolerance) sets 1
  std::string program;    // path of the running program
};

/// A subcommand with --json, its help text and an example below it.
CLI::App& new_verb(CLI::App& program, Session& session, const std::string& name,
                   const std::string& summary, const std::string& example);

/// Text or one JSON object on stdout; throws Error when stdout cannot take it.
void print(const std::string& text);
void print_json(const Json& json);

/// The result of a verb on stdout: its JSON object with --json, else its text.
void print_result(const Session& session, const Json& json, const std::string& text);

/// "! …" on stderr, above the progress line.
void warn(Session& session, const std::string& message);

/// Signals seen so far: 0, or the number of the first SIGINT / SIGTERM since `watch_signals()`. The
/// second signal ends the program at once.
void watch_signals();
int signal_seen();

struct VerbEntry {
  const char* name;
  const char* summary;
  void (*add)(CLI::App& program, Session& session);  // null: the verb lives in smelt-torch
};

/// Parses, runs and turns every failure into one clear line: exit 0, 1 (failed), 2 (usage), 128 +
/// n.
int run_program(int argc, char** argv, const std::vector<VerbEntry>& verbs);

}  // namespace smelt::cli
