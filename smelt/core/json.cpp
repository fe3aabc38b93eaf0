#include "smelt/core/json.h"

#include <algorithm>
#include <set>
#include <vector>

#include "smelt/core/file.h"

namespace smelt {

namespace {

/// Throws on a key that an object holds twice, where the library would silently take the last, and
/// on nesting so deep that copying and writing, which recurse, would overflow the stack.
class Checks {
 public:
  explicit Checks(std::string_view name) : name_(name) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    constexpr int kDeepest = 100;
    if (depth > kDeepest) {
      throw Error("core", "broken JSON: nested deeper than " + std::to_string(kDeepest), name_);
    }
    switch (event) {
      case Json::parse_event_t::object_start:
        open_.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        open_.pop_back();
        break;
      case Json::parse_event_t::key:
        if (!open_.back().insert(parsed.get<std::string>()).second) {
          throw Error("core", "broken JSON: key " + parsed.dump() + " is there twice", name_);
        }
        break;
      default:
        break;
    }
    return true;
  }

 private:
  std::string_view name_;
  std::vector<std::set<std::string>> open_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view name) {
  try {
    return Json::parse(text, Checks(name));
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t end = std::min<std::size_t>(error.byte, text.size());
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
    std::string message = error.what();
    if (const auto at = message.find("syntax error"); at != std::string::npos) message.erase(0, at);
    throw Error("core", "broken JSON: " + message, std::string(name) + ":" + std::to_string(line));
  } catch (const nlohmann::json::exception& error) {  // a number that no double holds
    throw Error("core", std::string("broken JSON: ") + error.what(), name);
  }
}

Json read_json(const std::filesystem::path& file) {
  return parse_json(read_file(file), file.string());
}

std::string shown(const Json& json) {
  return clipped(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string to_text(const Json& json) {
  // Text from outside may be no UTF-8; a replacement character is better than a failed write.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace smelt
