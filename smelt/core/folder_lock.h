// At most one process works in a folder.
//
//   FolderLock lock("runs/a", "train", "another process is training in this folder");
#pragma once

#include <filesystem>
#include <string_view>

namespace smelt {

/// Holds an advisory lock on FOLDER/.lock while it lives; a killed process leaves none behind.
class FolderLock {
 public:
  /// Throws Error(part, message, folder) when another process holds it.  File systems without locks
  /// are used without.
  FolderLock(const std::filesystem::path& folder, std::string_view part, std::string_view message);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace smelt
