// Reading whole files, and writing them so that a crash never leaves half of one.
//
//   write_file_atomic("runs/a/run.toml", text);   // aside, fsync, rename
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace smelt {

/// Throws Error that names the file when it is missing or unreadable.
std::string read_file(const std::filesystem::path& file);

/// Writes `content` beside `file`, syncs it to disk and renames it into place.  On any failure (no
/// space, no permission) the old file stays as it was, the partial one is removed, Error is thrown.
void write_file_atomic(const std::filesystem::path& file, std::string_view content);

/// Flushes a file or folder to disk.
void sync_to_disk(const std::filesystem::path& path);

/// Creates a folder and its parents; throws Error that names it.
void make_folder(const std::filesystem::path& folder);

/// `path` when it is absolute, else taken from the folder of `file` (configs name paths this way).
std::filesystem::path relative_to_file(const std::filesystem::path& path,
                                       const std::filesystem::path& file);

}  // namespace smelt
