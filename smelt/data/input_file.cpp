#include "smelt/data/input_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>

#include "smelt/core/error.h"

namespace smelt::data {
namespace {

constexpr std::size_t kBlock = 1 << 18;

class PlainDecoder : public Decoder {
 public:
  void decode(std::string_view input, std::string& output) override { output.append(input); }
  bool complete() const override { return true; }
};

class GzipDecoder : public Decoder {
 public:
  GzipDecoder() {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw Error("data", "zlib does not start");
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  void decode(std::string_view input, std::string& output) override {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
    while (stream_.avail_in > 0) {
      if (complete_) inflateReset(&stream_);  // the next member of the file
      complete_ = false;
      int code = Z_OK;
      do {
        const std::size_t before = output.size();
        output.resize(before + kBlock);
        stream_.next_out = reinterpret_cast<Bytef*>(output.data() + before);
        stream_.avail_out = kBlock;
        code = inflate(&stream_, Z_NO_FLUSH);
        output.resize(before + kBlock - stream_.avail_out);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
          throw Error("data", std::string("damaged gzip stream: ") +
                                  (stream_.msg ? stream_.msg : zError(code)));
        }
      } while (code == Z_OK && stream_.avail_out == 0);
      complete_ = code == Z_STREAM_END;
    }
  }
  bool complete() const override { return complete_; }

 private:
  z_stream stream_{};
  bool complete_ = false;
};

class ZstdDecoder : public Decoder {
 public:
  ~ZstdDecoder() override { ZSTD_freeDStream(stream_); }
  ZstdDecoder() : stream_(ZSTD_createDStream()) {}
  ZstdDecoder(const ZstdDecoder&) = delete;
  ZstdDecoder& operator=(const ZstdDecoder&) = delete;

  void decode(std::string_view input, std::string& output) override {
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    bool full = false;
    while (in.pos < in.size || full) {
      const std::size_t before = output.size();
      output.resize(before + kBlock);
      ZSTD_outBuffer out{output.data() + before, kBlock, 0};
      const std::size_t left = ZSTD_decompressStream(stream_, &out, &in);
      output.resize(before + out.pos);
      if (ZSTD_isError(left)) {
        throw Error("data", std::string("damaged zstd stream: ") + ZSTD_getErrorName(left));
      }
      complete_ = left == 0;
      full = out.pos == kBlock && !complete_;
    }
  }
  bool complete() const override { return complete_; }

 private:
  ZSTD_DStream* stream_;
  bool complete_ = false;
};

std::unique_ptr<Decoder> decoder_for(const std::filesystem::path& file) {
  if (file.extension() == ".gz") return std::make_unique<GzipDecoder>();
  if (file.extension() == ".zst") return std::make_unique<ZstdDecoder>();
  return std::make_unique<PlainDecoder>();
}

}  // namespace

InputStream::InputStream(const std::filesystem::path& file)
    : name_(file.string()), decoder_(decoder_for(file)), raw_(kBlock, '\0') {
  file_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0)
    throw Error("data", std::string("cannot open file: ") + std::strerror(errno), name_);
}

InputStream::~InputStream() {
  ::close(file_);
}

/// Reads one more block; false at the end of the file.
bool InputStream::fill() {
  if (ended_) return false;
  ssize_t got = 0;
  do {
    got = ::read(file_, raw_.data(), raw_.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) throw Error("data", std::string("cannot read file: ") + std::strerror(errno), name_);
  buffer_.erase(0, start_);
  start_ = 0;
  try {
    if (got > 0) {
      const std::string_view block(raw_.data(), static_cast<std::size_t>(got));
      hasher_.update(block);
      decoder_->decode(block, buffer_);
      return true;
    }
  } catch (const Error& error) {
    const std::string text = error.what();  // "[data] damaged …"
    throw Error("data", text.substr(text.find(' ') + 1), name_);
  }
  ended_ = true;
  if (!decoder_->complete()) throw Error("data", "compressed stream is cut short", name_);
  return false;
}

std::optional<std::string_view> InputStream::next_line() {
  std::size_t searched = 0;  // of what is not handed out yet
  while (true) {
    const std::size_t end = buffer_.find('\n', start_ + searched);
    if (end != std::string::npos) {
      const std::string_view found(buffer_.data() + start_, end - start_);
      start_ = end + 1;
      ++line_;
      return found;
    }
    searched = buffer_.size() - start_;
    if (!fill()) break;
  }
  if (start_ == buffer_.size()) return std::nullopt;
  const std::string_view found(buffer_.data() + start_, buffer_.size() - start_);
  start_ = buffer_.size();
  ++line_;
  return found;
}

std::string InputStream::rest() {
  while (fill()) {
  }
  std::string all = buffer_.substr(start_);
  start_ = buffer_.size();
  return all;
}

}  // namespace smelt::data
