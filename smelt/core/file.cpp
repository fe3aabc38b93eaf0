#include "smelt/core/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "smelt/core/error.h"

namespace smelt {
namespace {

[[noreturn]] void fail(const std::string& action, const std::filesystem::path& path, int code) {
  throw Error("core", action + ": " + std::strerror(code), path.string());
}

/// Closes the descriptor on every way out.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

std::string read_file(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    throw Error("core", "expected a file, found a folder", file.string());
  }
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) fail("cannot open file", file, errno ? errno : ENOENT);
  std::string content{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) fail("cannot read file", file, errno ? errno : EIO);
  return content;
}

void write_file_atomic(const std::filesystem::path& file, std::string_view content) {
  const std::filesystem::path aside = file.string() + ".partial-" + std::to_string(::getpid());
  int code = 0;
  {
    Descriptor out{::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (out.fd < 0) fail("cannot create file", file, errno);
    std::size_t written = 0;
    while (code == 0 && written < content.size()) {
      const ssize_t n = ::write(out.fd, content.data() + written, content.size() - written);
      if (n >= 0) {
        written += static_cast<std::size_t>(n);
      } else if (errno != EINTR) {
        code = errno;
      }
    }
    if (code == 0 && ::fsync(out.fd) != 0) code = errno;
  }
  if (code == 0 && ::rename(aside.c_str(), file.c_str()) != 0) code = errno;
  if (code != 0) {
    ::unlink(aside.c_str());
    fail("cannot write file", file, code);
  }
}

void sync_to_disk(const std::filesystem::path& path) {
  Descriptor handle{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (handle.fd < 0) fail("cannot open", path, errno);
  if (::fsync(handle.fd) != 0) fail("cannot sync", path, errno);
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) fail("cannot create folder", folder, code.value());
}

std::filesystem::path relative_to_file(const std::filesystem::path& path,
                                       const std::filesystem::path& file) {
  return path.is_absolute() ? path : (file.parent_path() / path).lexically_normal();
}

}  // namespace smelt
