#include "smelt/train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "smelt/core/error.h"
#include "smelt/core/file.h"

namespace smelt::train {
namespace {

struct Kept {
  std::size_t bytes = 0;
  bool has_evaluation = false;
};

/// The longest whole beginning of the file that holds no step above `step`.
Kept kept_part(std::string_view text, std::int64_t step) {
  Kept kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) break;
    const Json line = Json::parse(text.substr(begin, end - begin), nullptr, false);
    if (!line.is_object() || !line.contains("step") || !line.at("step").is_number_integer()) break;
    const auto line_step = line.at("step").get<std::int64_t>();
    if (line_step > step) break;
    if (line_step == step && line.contains("eval")) kept.has_evaluation = true;
    begin = end + 1;
    kept.bytes = begin;
  }
  return kept;
}

}  // namespace

std::vector<std::pair<std::string, double>> scalars(const Json& line) {
  std::vector<std::pair<std::string, double>> found;
  const auto add = [&](const std::string& tag, const Json& value) {
    if (value.is_number()) found.emplace_back(tag, value.get<double>());
  };
  for (const auto& [key, value] : line.items()) {
    if (key != "step" && key != "eval") add("train/" + key, value);
  }
  if (line.contains("domains")) {
    for (const auto& [name, loss] : line.at("domains").items()) add("domains/" + name, loss);
  }
  if (line.contains("router")) {
    for (const Json& layer : line.at("router")) {
      const std::string where =
          "router/layer " + layer.at("layer").dump() + ", visit " + layer.at("visit").dump() + "/";
      for (const char* key : {"max_load", "entropy", "unused"}) add(where + key, layer.at(key));
    }
  }
  if (line.contains("eval")) {
    const Json& eval = line.at("eval");
    if (eval.contains("loss")) add("eval/loss", eval.at("loss"));
    if (eval.contains("domains")) {
      for (const auto& [name, loss] : eval.at("domains").items()) add("eval/" + name, loss);
    }
  }
  return found;
}

MetricsFile::MetricsFile(std::filesystem::path file, std::int64_t step) : file_(std::move(file)) {
  Kept kept;
  if (std::filesystem::exists(file_)) kept = kept_part(read_file(file_), step);
  has_evaluation_ = kept.has_evaluation;
  bytes_ = kept.bytes;
  descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(kept.bytes)) != 0) {
    const int code = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    throw Error("train", std::string("cannot open for writing: ") + std::strerror(code),
                file_.string());
  }
}

MetricsFile::~MetricsFile() {
  ::close(descriptor_);
}

void MetricsFile::append(const Json& line) {
  pending_ += line.dump() + "\n";
  for (std::size_t written = 0; written < pending_.size();) {
    const ssize_t n = ::write(descriptor_, pending_.data() + written, pending_.size() - written);
    if (n >= 0) {
      written += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      const int code = errno;
      if (::ftruncate(descriptor_, static_cast<off_t>(bytes_)) != 0) pending_.clear();
      throw Error("train", std::string("cannot write: ") + std::strerror(code), file_.string());
    }
  }
  bytes_ += pending_.size();
  pending_.clear();
}

void MetricsFile::sync() {
  if (::fsync(descriptor_) != 0) {
    throw Error("train", std::string("cannot sync: ") + std::strerror(errno), file_.string());
  }
}

}  // namespace smelt::train
