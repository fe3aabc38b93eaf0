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

MetricsFile::MetricsFile(std::filesystem::path file, std::int64_t step) : file_(std::move(file)) {
  Kept kept;
  if (std::filesystem::exists(file_)) kept = kept_part(read_file(file_), step);
  has_evaluation_ = kept.has_evaluation;
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
  const std::string text = line.dump() + "\n";
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t n = ::write(descriptor_, text.data() + written, text.size() - written);
    if (n >= 0) {
      written += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      throw Error("train", std::string("cannot write: ") + std::strerror(errno), file_.string());
    }
  }
}

void MetricsFile::sync() {
  if (::fsync(descriptor_) != 0) {
    throw Error("train", std::string("cannot sync: ") + std::strerror(errno), file_.string());
  }
}

}  // namespace smelt::train
