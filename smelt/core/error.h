// The one exception of the project, and a collector for several problems of one input.
//
//   throw Error("data", "expected 4 columns, got 3", "runs.csv:17");
//   // what(): "[data] expected 4 columns, got 3 (runs.csv:17)"
//
//   Problems problems("arch", "config.json");
//   problems.add("num_experts must be at least num_experts_per_tok = 8, got 4");
//   problems.throw_if_any();   // all of them at once, one line each
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace smelt {

/// Bad input or a failed operation of the outside world.  `what()` may hold several lines.
class Error : public std::runtime_error {
 public:
  /// `folder` names the part that speaks ("data"), `where` the place of the fault, if known.
  Error(std::string_view folder, std::string_view message, std::string_view where = {});
  /// Several finished lines, each already "[folder] message (where)".
  explicit Error(const std::vector<std::string>& lines);
};

/// Gathers every problem of one input, so that a user sees them all in one run.
class Problems {
 public:
  explicit Problems(std::string folder, std::string where = {});

  void add(std::string_view message);
  void add(std::string_view message, std::string_view where);
  const std::string& where() const { return where_; }
  bool empty() const { return lines_.empty(); }
  const std::vector<std::string>& lines() const { return lines_; }
  /// The lines as they were added: without folder and place.
  const std::vector<std::string>& messages() const { return messages_; }
  /// Throws Error with all lines; does nothing when there are none.
  void throw_if_any() const;

 private:
  std::string folder_;
  std::string where_;
  std::vector<std::string> lines_, messages_;
};

/// The nearest of `choices` to `word` when it is near enough to be a typing error, else "".
std::string nearest(std::string_view word, const std::vector<std::string>& choices);

/// `text` as an error message quotes it: at most 80 bytes, whole UTF-8 characters, "…" where more
/// was.
std::string clipped(std::string_view text);

/// "a, b or c".
std::string join_choices(const std::vector<std::string>& choices);

}  // namespace smelt
