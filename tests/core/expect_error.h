// Checks the whole text of a thrown Error:
//
//   expect_error([] { read_file("none"); }, "[core] cannot open file: No such file or directory
//   (none)");
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "smelt/core/error.h"

namespace smelt::testing {

template <class Call>
void expect_error(Call&& call, const std::string& expected) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), expected);
    return;
  }
  ADD_FAILURE() << "no error; expected: " << expected;
}

/// A folder of its own for one test, removed afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = ::testing::TempDir() + "smelt-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace smelt::testing
