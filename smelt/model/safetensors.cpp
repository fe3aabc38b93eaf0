// The safetensors file format, both ways (declared in weights.h).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <system_error>

#include "smelt/core/error.h"
#include "smelt/core/file.h"
#include "smelt/core/json.h"
#include "smelt/model/weights.h"

namespace smelt::model {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the format's own limit

struct Dtype {
  at::ScalarType type;
  const char* name;
};
constexpr Dtype kDtypes[] = {{at::kDouble, "F64"},    {at::kFloat, "F32"}, {at::kHalf, "F16"},
                             {at::kBFloat16, "BF16"}, {at::kLong, "I64"},  {at::kInt, "I32"},
                             {at::kByte, "U8"}};

struct Entry {
  std::string name;
  at::ScalarType type;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// One tensor of the header; problems are added, nullopt returned.
std::optional<Entry> read_entry(const std::string& name, const Json& json, std::uint64_t data_size,
                                Problems& problems) {
  const auto bad = [&](const std::string& message) {
    problems.add(fmt::format("tensor \"{}\": {}", name, message));
    return std::nullopt;
  };
  if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets")) {
    return bad("expected dtype, shape and data_offsets");
  }
  const Json &dtype = json["dtype"], &shape = json["shape"], &offsets = json["data_offsets"];
  const auto known = std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const Dtype& d) {
    return dtype.is_string() && dtype.get_ref<const std::string&>() == d.name;
  });
  if (known == std::end(kDtypes)) return bad("dtype " + dtype.dump() + " is not supported");
  Entry entry{name, known->type, {}};
  const auto natural = [](const Json& value) { return value.is_number_unsigned(); };
  if (!shape.is_array() || !std::all_of(shape.begin(), shape.end(), natural)) {
    return bad("expected a shape of whole numbers, got " + shape.dump());
  }
  std::uint64_t bytes = c10::elementSize(known->type);
  for (const Json& size : shape) {
    const auto value = size.get<std::uint64_t>();
    entry.shape.push_back(static_cast<std::int64_t>(value));
    if (value > 0 && bytes > data_size / value)
      bytes = data_size + 1;  // beyond the file either way
    else
      bytes *= value;
  }
  if (!offsets.is_array() || offsets.size() != 2 ||
      !std::all_of(offsets.begin(), offsets.end(), natural)) {
    return bad("expected two data_offsets, got " + offsets.dump());
  }
  entry.begin = offsets[0].get<std::uint64_t>();
  entry.end = offsets[1].get<std::uint64_t>();
  if (entry.begin > entry.end) return bad("data_offsets run backwards: " + offsets.dump());
  if (entry.end > data_size) {
    return bad(fmt::format("ends at byte {} of {} bytes of data: the file is cut short", entry.end,
                           data_size));
  }
  if (entry.end - entry.begin != bytes) {
    return bad(fmt::format("{} bytes of data do not fit shape {} of {}", entry.end - entry.begin,
                           shape.dump(), known->name));
  }
  return entry;
}

/// Checks that the tensors fill the data without gap or overlap; sorts them by place.
void check_layout(std::vector<Entry>& entries, std::uint64_t data_size, Problems& problems) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t end = 0;
  const std::string* before = nullptr;
  for (const Entry& entry : entries) {
    if (entry.begin < end) {
      problems.add(fmt::format("tensor \"{}\" overlaps \"{}\"", entry.name, *before));
    } else if (entry.begin > end) {
      problems.add(fmt::format("{} bytes before tensor \"{}\" belong to no tensor",
                               entry.begin - end, entry.name));
    }
    end = std::max(end, entry.end);
    before = &entry.name;
  }
  if (end < data_size) {
    problems.add(
        fmt::format("{} bytes after the last tensor belong to no tensor", data_size - end));
  }
}

std::string header_of(const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata,
                      const std::string& where) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto known =
        std::find_if(std::begin(kDtypes), std::end(kDtypes),
                     [&, &t = tensor](const Dtype& d) { return t.scalar_type() == d.type; });
    if (known == std::end(kDtypes)) {
      throw Error("model",
                  fmt::format("tensor \"{}\": dtype {} cannot be written", name,
                              c10::toString(tensor.scalar_type())),
                  where);
    }
    if (header.contains(name) || name == "__metadata__") {
      throw Error("model", fmt::format("tensor \"{}\" is given twice", name), where);
    }
    const std::uint64_t end = offset + tensor.nbytes();
    header[name] = {
        {"dtype", known->name}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data starts at a multiple of 8
  return text;
}

/// A file being written aside; removed again unless it is renamed into place.
class AsideFile {
 public:
  explicit AsideFile(const std::filesystem::path& file)
      : file_(file), aside_(file.string() + ".partial-" + std::to_string(::getpid())) {
    descriptor_ = ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail("cannot create file");
  }
  ~AsideFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!renamed_) ::unlink(aside_.c_str());
  }
  AsideFile(const AsideFile&) = delete;
  AsideFile& operator=(const AsideFile&) = delete;

  void write(const void* bytes, std::size_t size) {
    const char* at = static_cast<const char*>(bytes);
    while (size > 0) {
      const ssize_t n = ::write(descriptor_, at, size);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("cannot write file");
      at += n;
      size -= static_cast<std::size_t>(n);
    }
  }
  void into_place() {
    if (::fsync(descriptor_) != 0) fail("cannot write file");
    if (::rename(aside_.c_str(), file_.c_str()) != 0) fail("cannot write file");
    renamed_ = true;
  }

 private:
  [[noreturn]] void fail(const char* action) const {
    throw Error("model", std::string(action) + ": " + std::strerror(errno), file_.string());
  }

  std::filesystem::path file_;
  std::filesystem::path aside_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

}  // namespace

NamedTensors read_safetensors(const std::filesystem::path& file) {
  std::error_code code;
  const std::uint64_t size = std::filesystem::file_size(file, code);
  if (code) throw Error("model", "cannot open file: " + code.message(), file.string());
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw Error("model", std::string("cannot open file: ") + std::strerror(errno), file.string());
  const auto cut_short = [&](const std::string& what) {
    return Error(
        "model",
        fmt::format("{}: the file of {} bytes is cut short or no safetensors file", what, size),
        file.string());
  };
  std::uint64_t header_size = 0;
  if (size < 8 || !in.read(reinterpret_cast<char*>(&header_size), 8)) {
    throw cut_short("no room for the header's length");
  }
  if (header_size > kMaxHeader || header_size > size - 8) {
    throw cut_short(fmt::format("the header claims {} bytes", header_size));
  }
  std::string text(header_size, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(header_size)))
    throw cut_short("no header");
  const Json header = parse_json(text, file.string() + " header");
  Problems problems("model", file.string());
  if (!header.is_object()) throw Error("model", "the header is no JSON object", file.string());
  const std::uint64_t data_size = size - 8 - header_size;
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") continue;
    if (auto entry = read_entry(name, json, data_size, problems)) entries.push_back(*entry);
  }
  problems.throw_if_any();
  check_layout(entries, data_size, problems);
  problems.throw_if_any();
  NamedTensors tensors;
  for (const Entry& entry : entries) {
    at::Tensor tensor = at::empty(entry.shape, at::TensorOptions().dtype(entry.type));
    in.seekg(static_cast<std::streamoff>(8 + header_size + entry.begin));
    if (!in.read(static_cast<char*>(tensor.mutable_data_ptr()),
                 static_cast<std::streamsize>(entry.end - entry.begin))) {
      throw Error("model", fmt::format("tensor \"{}\": the data cannot be read", entry.name),
                  file.string());
    }
    tensors.emplace_back(entry.name, std::move(tensor));
  }
  return tensors;
}

void write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(tensors, metadata, file.string());
  AsideFile out(file);
  const std::uint64_t size = header.size();
  out.write(&size, sizeof size);
  out.write(header.data(), header.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor plain = tensor.detach().contiguous().cpu();
    out.write(plain.const_data_ptr(), plain.nbytes());
  }
  out.into_place();
  sync_to_disk(std::filesystem::absolute(file).parent_path());
}

}  // namespace smelt::model
