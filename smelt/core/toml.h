// TOML files (toml++) whose every key must be read by somebody, with errors that name file and
// line.
//
//   TomlFile file = TomlFile::read("study.toml");
//   Problems problems("study", "study.toml");
//   auto seeds = file.root().get<std::vector<std::int64_t>>("seeds", problems);
//   file.report_unread(problems);      // "unknown key "seedz"; did you mean "seeds"?
//   (study.toml:4)" problems.throw_if_any();
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/core/error.h"
#include "smelt/core/json.h"

namespace smelt {

/// A view of one table of a TomlFile (which must outlive it).  A default-made one is an empty
/// table.
class TomlTable {
 public:
  TomlTable() = default;

  bool has(std::string_view key) const;
  std::vector<std::string> keys() const;
  /// The value of `key`, or nothing when it is absent.  A wrong type is added to `problems`.  T:
  /// bool, int, int64_t, uint64_t, double (integers accepted), string, vector of int64_t / double /
  /// string.
  template <class T>
  std::optional<T> get(std::string_view key, Problems& problems);
  /// The sub-table; an empty one when absent.
  TomlTable table(std::string_view key, Problems& problems);
  /// The entries of an array of tables; none when absent.
  std::vector<TomlTable> tables(std::string_view key, Problems& problems);
  /// "study.toml:17", of a key or of the table itself.
  std::string where(std::string_view key = {}) const;
  /// The whole table as JSON, every key counted as read.
  Json to_json();

 private:
  friend class TomlFile;
  struct Node;
  std::shared_ptr<Node> node_;
};

class TomlFile {
 public:
  /// Throws Error "broken TOML: … (file:line)".
  static TomlFile read(const std::filesystem::path& file);
  static TomlFile parse(std::string_view text, std::string name);

  TomlTable root() const { return root_; }
  const std::string& name() const { return name_; }
  /// Adds one problem per key that nobody asked for, with the nearest key that was asked for.
  void report_unread(Problems& problems) const;

 private:
  std::string name_;
  TomlTable root_;
};

/// A JSON scalar or array of scalars as TOML text; an object as an inline table.
std::string toml_value(const Json& value);

}  // namespace smelt
