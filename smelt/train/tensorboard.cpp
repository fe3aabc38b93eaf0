#include "smelt/train/tensorboard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "smelt/core/error.h"
#include "smelt/core/file.h"

namespace smelt::train {
namespace {

// Protocol buffers: a key is field number · 8 + wire type.
enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

template <class T>
void put_fixed(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void put_key(std::string& out, int field, Wire wire) {
  put_varint(out, static_cast<std::uint64_t>(field * 8 + wire));
}

void put_bytes(std::string& out, int field, const std::string& bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

double wall_time() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Event { double wall_time = 1; int64 step = 2; … }
std::string event(std::int64_t step) {
  std::string out;
  put_key(out, 1, kFixed64);
  put_fixed(out, wall_time());
  put_key(out, 2, kVarint);
  put_varint(out, static_cast<std::uint64_t>(step));
  return out;
}

std::uint32_t masked(std::uint32_t crc) {
  return std::rotr(crc, 15) + 0xA282EAD8u;
}

}  // namespace

std::uint32_t crc32c(const std::string& bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82F63B78u : 0);
      made[i] = value;
    }
    return made;
  }();
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t step) {
  make_folder(folder);
  const auto now = static_cast<std::int64_t>(wall_time());
  for (int n = 0; descriptor_ < 0; ++n) {  // a name of its own, also within a second
    file_ = folder / fmt::format("events.out.tfevents.{:010}.smelt.{}.{}", now, ::getpid(), n);
    descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && errno != EEXIST) {
      throw Error("train", std::string("cannot open for writing: ") + std::strerror(errno),
                  file_.string());
    }
  }
  std::string version = event(0);
  put_bytes(version, 3, "brain.Event:2");
  write_record(version);
  std::string start = event(step + 1);  // session_log = 7 { status = 1: START = 1 }
  std::string session;
  put_key(session, 1, kVarint);
  put_varint(session, 1);
  put_bytes(start, 7, session);
  write_record(start);
}

EventFile::~EventFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void EventFile::add(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    std::string entry;  // Value { string tag = 1; float simple_value = 2; }
    put_bytes(entry, 1, tag);
    put_key(entry, 2, kFixed32);
    put_fixed(entry, static_cast<float>(value));
    put_bytes(summary, 1, entry);
  }
  std::string out = event(step);
  put_bytes(out, 5, summary);
  write_record(out);
}

/// Length, its masked CRC, the event, its masked CRC.
void EventFile::write_record(const std::string& event) {
  std::string record;
  put_fixed(record, static_cast<std::uint64_t>(event.size()));
  put_fixed(record, masked(crc32c(record)));
  record += event;
  put_fixed(record, masked(crc32c(event)));
  // One call: a reader, or a kill, sees a record whole or cut at the end.
  if (::write(descriptor_, record.data(), record.size()) != static_cast<ssize_t>(record.size())) {
    throw Error("train", std::string("cannot write: ") + std::strerror(errno), file_.string());
  }
}

}  // namespace smelt::train
