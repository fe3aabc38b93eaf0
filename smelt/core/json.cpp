#include "smelt/core/json.h"

#include <algorithm>

#include "smelt/core/file.h"

namespace smelt {

Json parse_json(std::string_view text, std::string_view name) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t end = std::min<std::size_t>(error.byte, text.size());
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
    std::string message = error.what();
    if (const auto at = message.find("syntax error"); at != std::string::npos) message.erase(0, at);
    throw Error("core", "broken JSON: " + message, std::string(name) + ":" + std::to_string(line));
  }
}

Json read_json(const std::filesystem::path& file) {
  return parse_json(read_file(file), file.string());
}

std::string to_text(const Json& json) {
  // Text from outside may be no UTF-8; a replacement character is better than a failed write.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace smelt
