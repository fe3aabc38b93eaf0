#include "smelt/core/toml.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <type_traits>
#include <utility>

#include "smelt/core/csv.h"
#include "smelt/core/file.h"

namespace smelt {

struct TomlTable::Node {
  std::shared_ptr<toml::table> owner;  // keeps the parsed file alive
  const toml::table* table = nullptr;
  std::string file;
  std::set<std::string, std::less<>> asked;
  std::map<std::string, std::vector<std::shared_ptr<Node>>, std::less<>> children;

  std::shared_ptr<Node> child(const toml::table* sub) const {
    auto node = std::make_shared<Node>();
    node->owner = owner;
    node->table = sub;
    node->file = file;
    return node;
  }
};

namespace {

std::string type_name(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (node.is_array()) return "an array";
  if (node.is_string()) return "a string";
  if (node.is_integer()) return "an integer";
  if (node.is_floating_point()) return "a number";
  if (node.is_boolean()) return "true or false";
  return "a date or time";
}

template <class T>
std::string expected_name() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, std::string>) return "a string";
  if constexpr (std::is_same_v<T, double>) return "a number";
  if constexpr (std::is_same_v<T, std::uint64_t>) return "an integer of at least 0";
  if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) return "an array of integers";
  if constexpr (std::is_same_v<T, std::vector<double>>) return "an array of numbers";
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return "an array of strings";
  return "an integer";
}

template <class T>
std::optional<T> scalar(const toml::node& node) {
  if constexpr (std::is_same_v<T, bool>) {
    return node.value_exact<bool>();
  } else if constexpr (std::is_same_v<T, double>) {
    if (node.is_integer()) return static_cast<double>(*node.value_exact<std::int64_t>());
    return node.value_exact<double>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    return node.value_exact<std::string>();
  } else {
    std::optional<std::int64_t> whole = node.value_exact<std::int64_t>();
    // 2e6 is how people write token counts.
    if (const auto real = node.value_exact<double>();
        !whole && real && *real == std::floor(*real) && std::abs(*real) < 9e15) {
      whole = static_cast<std::int64_t>(*real);
    }
    if (!whole || !std::in_range<T>(*whole)) return std::nullopt;
    return static_cast<T>(*whole);
  }
}

template <class T>
std::optional<T> value_of(const toml::node& node) {
  if constexpr (std::is_same_v<T, std::vector<std::int64_t>> ||
                std::is_same_v<T, std::vector<double>> ||
                std::is_same_v<T, std::vector<std::string>>) {
    const toml::array* array = node.as_array();
    if (!array) return std::nullopt;
    T values;
    for (const toml::node& item : *array) {
      const auto value = scalar<typename T::value_type>(item);
      if (!value) return std::nullopt;
      values.push_back(*value);
    }
    return values;
  } else {
    return scalar<T>(node);
  }
}

Json to_json_value(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json json = Json::object();
    for (const auto& [key, value] : *table) json[std::string(key.str())] = to_json_value(value);
    return json;
  }
  if (const auto* array = node.as_array()) {
    Json json = Json::array();
    for (const auto& value : *array) json.push_back(to_json_value(value));
    return json;
  }
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto flag = node.value_exact<bool>()) return *flag;
  if (const auto whole = node.value_exact<std::int64_t>()) return *whole;
  if (const auto real = node.value_exact<double>()) return *real;
  return nullptr;
}

std::string place(const std::string& file, const toml::source_region& source) {
  return source.begin.line == 0 ? file : file + ":" + std::to_string(source.begin.line);
}

}  // namespace

bool TomlTable::has(std::string_view key) const {
  return node_ && node_->table->contains(key);
}

std::vector<std::string> TomlTable::keys() const {
  std::vector<std::string> names;
  if (node_) {
    for (const auto& [key, value] : *node_->table) names.emplace_back(key.str());
  }
  return names;
}

template <class T>
std::optional<T> TomlTable::get(std::string_view key, Problems& problems) {
  if (!node_) return std::nullopt;
  node_->asked.emplace(key);
  const toml::node* found = node_->table->get(key);
  if (!found) return std::nullopt;
  auto value = value_of<T>(*found);
  if (!value) {
    // A number where a whole number is wanted is of the right kind, so its value says what is
    // wrong.
    const bool number = std::is_integral_v<T> && !std::is_same_v<T, bool> && found->is_number();
    const std::string got =
        number ? number_text(found->value<double>().value_or(NAN)) : type_name(*found);
    problems.add(std::string(key) + ": expected " + expected_name<T>() + ", got " + got,
                 where(key));
  }
  return value;
}

template std::optional<bool> TomlTable::get(std::string_view, Problems&);
template std::optional<int> TomlTable::get(std::string_view, Problems&);
template std::optional<std::int64_t> TomlTable::get(std::string_view, Problems&);
template std::optional<std::uint64_t> TomlTable::get(std::string_view, Problems&);
template std::optional<double> TomlTable::get(std::string_view, Problems&);
template std::optional<std::string> TomlTable::get(std::string_view, Problems&);
template std::optional<std::vector<std::int64_t>> TomlTable::get(std::string_view, Problems&);
template std::optional<std::vector<double>> TomlTable::get(std::string_view, Problems&);
template std::optional<std::vector<std::string>> TomlTable::get(std::string_view, Problems&);

TomlTable TomlTable::table(std::string_view key, Problems& problems) {
  TomlTable sub;
  if (!node_) return sub;
  node_->asked.emplace(key);
  const toml::node* found = node_->table->get(key);
  if (!found) return sub;
  if (!found->is_table()) {
    problems.add(std::string(key) + ": expected a table, got " + type_name(*found), where(key));
    return sub;
  }
  auto& known = node_->children[std::string(key)];
  if (known.empty()) known.push_back(node_->child(found->as_table()));
  sub.node_ = known.front();
  return sub;
}

std::vector<TomlTable> TomlTable::tables(std::string_view key, Problems& problems) {
  std::vector<TomlTable> entries;
  if (!node_) return entries;
  node_->asked.emplace(key);
  const toml::node* found = node_->table->get(key);
  if (!found) return entries;
  const toml::array* array = found->as_array();
  if (!array ||
      !std::all_of(array->begin(), array->end(), [](const auto& n) { return n.is_table(); })) {
    problems.add(std::string(key) + ": expected an array of tables [[" + std::string(key) + "]]",
                 where(key));
    return entries;
  }
  auto& known = node_->children[std::string(key)];
  if (known.empty()) {
    for (const toml::node& item : *array) known.push_back(node_->child(item.as_table()));
  }
  for (const auto& node : known) {
    TomlTable entry;
    entry.node_ = node;
    entries.push_back(entry);
  }
  return entries;
}

std::string TomlTable::where(std::string_view key) const {
  if (!node_) return {};
  if (!key.empty()) {
    for (const auto& [name, value] : *node_->table) {
      if (name.str() != key) continue;
      return place(node_->file, name.source().begin.line ? name.source() : value.source());
    }
  }
  return place(node_->file, node_->table->source());
}

Json TomlTable::to_json() {
  if (!node_) return Json::object();
  for (const auto& [key, value] : *node_->table) node_->asked.emplace(key.str());
  // Sub-tables read this way are read as a whole.
  node_->children.clear();
  return to_json_value(*node_->table);
}

TomlFile TomlFile::read(const std::filesystem::path& file) {
  return parse(read_file(file), file.string());
}

TomlFile TomlFile::parse(std::string_view text, std::string name) {
  TomlFile file;
  file.name_ = std::move(name);
  auto node = std::make_shared<TomlTable::Node>();
  try {
    node->owner = std::make_shared<toml::table>(toml::parse(text));
  } catch (const toml::parse_error& error) {
    throw Error("core", "broken TOML: " + std::string(error.description()),
                place(file.name_, error.source()));
  }
  node->table = node->owner.get();
  node->file = file.name_;
  file.root_.node_ = std::move(node);
  return file;
}

void TomlFile::report_unread(Problems& problems) const {
  const auto report = [&problems](const TomlTable::Node& node, const std::string& prefix,
                                  const auto& self) -> void {
    TomlTable view;
    view.node_ = std::make_shared<TomlTable::Node>(node);
    for (const auto& [key, value] : *node.table) {
      const std::string name(key.str());
      if (!node.asked.contains(name)) {
        std::string message = "unknown key \"" + prefix + clipped(name) + "\"";
        const std::string guess = nearest(name, {node.asked.begin(), node.asked.end()});
        if (!guess.empty()) message += "; did you mean \"" + guess + "\"?";
        problems.add(message, view.where(name));
      }
      if (const auto found = node.children.find(name); found != node.children.end()) {
        for (const auto& child : found->second) self(*child, prefix + name + ".", self);
      }
    }
  };
  report(*root_.node_, "", report);
}

namespace {

std::string quoted(const std::string& text) {
  std::string out = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = 0; (at = out.find('\x7f', at)) != std::string::npos;) {
    out.replace(at, 1, "\\u007f");  // JSON may hold it raw, TOML may not
  }
  return out;
}

std::string toml_key(const std::string& key) {
  const bool bare = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  return bare ? key : quoted(key);
}

}  // namespace

std::string toml_value(const Json& value) {
  if (value.is_object()) {
    std::string text = "{ ";
    for (const auto& [key, item] : value.items()) {
      text += (text.size() > 2 ? ", " : "") + toml_key(key) + " = " + toml_value(item);
    }
    return text + " }";
  }
  if (value.is_array()) {
    std::string text = "[";
    for (const auto& item : value) text += (text.size() > 1 ? ", " : "") + toml_value(item);
    return text + "]";
  }
  if (value.is_number_float()) {
    std::string text = number_text(value.get<double>());
    if (text.find_first_of(".enai") == std::string::npos) text += ".0";
    return text;
  }
  if (value.is_string()) return quoted(value.get<std::string>());
  if (value.is_null()) throw Error("core", "TOML has no null");
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    throw Error("core", "TOML holds integers up to 9223372036854775807, got " + value.dump());
  }
  return value.dump();  // JSON integers and booleans are TOML
}

}  // namespace smelt
