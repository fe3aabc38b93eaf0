// A study folder as the report sees it: study.json, where anything may be missing or null, and the
// loss curves out of runs/<name>/metrics.jsonl.
//
//   const Study study = read_study("runs/quick");
//   std::optional<double> gap = number(get(study.json, {"gap", "gap"}));
#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/core/json.h"

namespace smelt::report {

inline constexpr const char* kArms[] = {"baseline", "smelt"};
/// "Baseline", "SMELT"; any other name as it is.
std::string arm_name(std::string_view arm);

/// The member at the end of a path of keys; a JSON null when there is none.
const Json& get(const Json& json, std::initializer_list<const char*> path);
const Json& get(const Json& json, const char* key);
/// The array at `path`; an empty one when there is none.
const Json& list(const Json& json, std::initializer_list<const char*> path);
/// A finite number; nothing for anything else.
std::optional<double> number(const Json& json);
/// A string as it is, numbers and booleans as JSON writes them, "" for the rest.
std::string text(const Json& json);
bool truth(const Json& json);
/// An interval [low, high] or {"min", "max"}.
struct Interval {
  double low = 0, high = 0;
};
std::optional<Interval> interval(const Json& json);
/// The non-empty strings of an array, or the one string.
std::vector<std::string> words(const Json& json);

/// Loss over tokens of one run, thinned.
struct Curve {
  struct Point {
    double step = 0, tokens = 0, loss = 0, smoothed = 0;
    bool full = true;  // the window was not cut by an end of the run
  };
  std::vector<Point> points;
  std::size_t steps = 0;         // in the file
  std::size_t window = 1;        // steps under the running mean
  std::size_t broken_lines = 0;  // not JSON; the last line of a run that was killed is one
};

/// Every step's loss is under a centred running mean over `window` steps (0: one fortieth of the
/// run); `most` points remain.
Curve read_curve(const std::filesystem::path& metrics, std::size_t most, std::size_t window = 0);

struct Study {
  std::filesystem::path folder;
  Json json;

  std::string name() const;
  /// Cell names in the order of the study, from wherever they are known.
  std::vector<std::string> cells() const;
  std::vector<std::string> seeds() const;
  /// Largest token count among the entries of `key` for a cell; nothing when there are none.
  std::optional<double> longest(const char* key, const std::string& cell) const;
};

/// Throws Error naming study.json (and the line of broken JSON), or its schema when it is another.
Study read_study(const std::filesystem::path& folder);

}  // namespace smelt::report
