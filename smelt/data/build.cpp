#include "smelt/data/build.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "smelt/core/csv.h"
#include "smelt/core/error.h"
#include "smelt/core/hash.h"
#include "smelt/core/parallel.h"
#include "smelt/core/table.h"
#include "smelt/data/pools.h"
#include "smelt/data/store_writer.h"
#include "smelt/data/token_store.h"
#include "smelt/data/tokenizer.h"

namespace smelt::data {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kShownLines = 100;
constexpr std::size_t kBatchBytes = 8 << 20;
constexpr double kTwo64 = 18446744073709551616.0;

/// What the first pass keeps of a document.
struct Scanned {
  std::uint64_t hash = 0;
  std::uint64_t bytes = 0;
  std::uint32_t source = 0;
  bool validation = false;
  bool dropped = false;  // its text is in the validation pool too
};

struct Scan {
  std::vector<Scanned> documents;  // in the order of reading
  StoreNames names;
  std::vector<std::uint16_t> domain_of;  // by source
  std::vector<std::string> file_hashes;
  ReadCounts counts;
  std::uint64_t duplicates_dropped = 0;
  bool validation_files = false;
};

class Reporter {
 public:
  Reporter(const ProgressSink& sink, std::string task, double total, std::string unit)
      : sink_(sink), event_{std::move(task), 0, total, std::move(unit), ""} {}
  void done(double amount) {
    event_.done += amount;
    if (sink_) sink_(event_);
  }

 private:
  const ProgressSink& sink_;
  ProgressEvent event_;
};

double megabytes(const std::vector<InputFile>& files) {
  double sum = 0;
  for (const InputFile& file : files) sum += static_cast<double>(file.bytes) / 1e6;
  return sum;
}

/// Numbers (source, domain) pairs and domains in the order in which they appear.
class Names {
 public:
  explicit Names(Scan& scan) : scan_(scan) {}
  std::uint32_t source(std::string_view source, std::string_view domain) {
    const std::uint32_t d =
        index(domains_, scan_.names.domains, std::string(domain), 65536, "domains");
    const std::string key = std::string(source) + '\0' + std::to_string(d);
    const auto found = sources_.find(key);
    if (found != sources_.end()) return found->second;
    const std::uint32_t s = static_cast<std::uint32_t>(scan_.names.sources.size());
    sources_.emplace(key, s);
    scan_.names.sources.emplace_back(source);
    scan_.domain_of.push_back(static_cast<std::uint16_t>(d));
    return s;
  }

 private:
  static std::uint32_t index(std::unordered_map<std::string, std::uint32_t>& known,
                             std::vector<std::string>& names, const std::string& name,
                             std::size_t most, const char* what) {
    const auto found = known.find(name);
    if (found != known.end()) return found->second;
    if (names.size() == most) throw Error("data", "more than " + std::to_string(most) + " " + what);
    known.emplace(name, static_cast<std::uint32_t>(names.size()));
    names.push_back(name);
    return static_cast<std::uint32_t>(names.size() - 1);
  }
  Scan& scan_;
  std::unordered_map<std::string, std::uint32_t> domains_, sources_;
};

/// First pass: checks every file and collects what there is.
Scan scan_files(const std::vector<InputFile>& files, const ProgressSink& progress) {
  Scan scan;
  Names names(scan);
  Reporter report(progress, "read", megabytes(files), "MB");
  std::vector<std::string> problems;
  for (const InputFile& file : files) {
    scan.validation_files |= file.validation;
    try {
      const ReadCounts counts = read_documents(file, [&](const TextDocument& document) {
        scan.documents.push_back({content_hash(document.text), document.text.size(),
                                  names.source(document.source, document.domain), file.validation,
                                  false});
      });
      scan.counts.documents += counts.documents;
      scan.counts.blank_lines += counts.blank_lines;
      scan.counts.empty_documents += counts.empty_documents;
      scan.file_hashes.push_back(counts.hash);
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
    report.done(static_cast<double>(file.bytes) / 1e6);
  }
  if (problems.size() > kShownLines) {
    const std::size_t hidden = problems.size() - kShownLines;
    problems.resize(kShownLines);
    problems.push_back("[data] and problems in " + std::to_string(hidden) + " more files");
  }
  if (!problems.empty()) throw Error(problems);
  if (scan.documents.empty())
    throw Error("data", "the input holds no documents, only blank lines or empty files");
  return scan;
}

/// Without validation files: a document is held out when its hash is below the fraction, and in
/// each source of two or more texts at least the one with the smallest hash.  Then equal texts
/// leave training.
void hold_out(Scan& scan, double fraction) {
  if (!scan.validation_files && fraction > 0) {
    constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
    std::vector<std::uint64_t> smallest(scan.names.sources.size(), kNone),
        largest(smallest.size(), 0);
    for (const Scanned& document : scan.documents) {
      smallest[document.source] = std::min(smallest[document.source], document.hash);
      largest[document.source] = std::max(largest[document.source], document.hash);
    }
    for (Scanned& document : scan.documents) {
      const std::uint64_t low = smallest[document.source];
      if (low == largest[document.source]) continue;  // one text: it stays in training
      document.validation =
          static_cast<double>(document.hash) / kTwo64 < fraction || document.hash == low;
    }
  }
  std::unordered_set<std::uint64_t> held_out;
  for (const Scanned& document : scan.documents) {
    if (document.validation) held_out.insert(document.hash);
  }
  for (Scanned& document : scan.documents) {
    document.dropped = !document.validation && held_out.contains(document.hash);
    scan.duplicates_dropped += document.dropped;
  }
}

/// Reads the files again and hands out each document with what the first pass noted.
void reread(const std::vector<InputFile>& files, const Scan& scan, Reporter& report,
            const std::function<void(const Scanned&, std::string_view)>& visit) {
  std::size_t next = 0;
  for (const InputFile& file : files) {
    read_documents(file, [&](const TextDocument& document) {
      if (next == scan.documents.size() ||
          scan.documents[next].hash != content_hash(document.text)) {
        throw Error("data", "the file changed while it was read", file.path.string());
      }
      visit(scan.documents[next++], document.text);
    });
    report.done(static_cast<double>(file.bytes) / 1e6);
  }
  if (next != scan.documents.size()) throw Error("data", "the input changed while it was read");
}

/// Trains on training documents only; a sample by hash when there is more text than asked for.
Tokenizer train_on(const std::vector<InputFile>& files, const Scan& scan,
                   const DataOptions& options, const ProgressSink& progress) {
  double total = 0;
  for (const Scanned& document : scan.documents) {
    if (!document.validation && !document.dropped) total += static_cast<double>(document.bytes);
  }
  if (total == 0) throw Error("data", "nothing is left to train on: every document is held out");
  const double share = static_cast<double>(options.tokenizer_megabytes) * 1e6 / total;
  std::string text;
  Reporter report(progress, "read for the tokenizer", megabytes(files), "MB");
  reread(files, scan, report, [&](const Scanned& document, std::string_view content) {
    if (document.validation || document.dropped) return;
    const double draw =
        static_cast<double>(hash64("tokenizer " + std::to_string(document.hash))) / kTwo64;
    if (draw >= share) return;
    text.append(content);
    text += '\n';
  });
  Reporter training(progress, "train the tokenizer", 0, "");
  training.done(0);
  std::size_t from = 0;
  return train_tokenizer(
      [&]() -> std::optional<std::string_view> {
        while (from < text.size()) {
          const std::size_t end = text.find('\n', from);
          const std::string_view line(text.data() + from, end - from);
          from = end + 1;
          if (!line.empty()) return line;
        }
        return std::nullopt;
      },
      options.vocab_size);
}

/// Encodes documents on all cores, batch by batch, and writes them in order.
class Encoder {
 public:
  Encoder(const Tokenizer& tokenizer, const Scan& scan, StoreWriter& writer, unsigned threads)
      : tokenizer_(tokenizer),
        scan_(scan),
        writer_(writer),
        threads_(threads),
        byte_tokens_(scan.names.domains.size(), 0) {}

  void add(const Scanned& document, std::string_view text) {
    batch_.push_back({document, std::string(text), {}});
    bytes_ += text.size();
    if (bytes_ >= kBatchBytes) flush();
  }

  void flush() {
    parallel_for(
        batch_.size(), [&](std::size_t i) { batch_[i].tokens = tokenizer_.encode(batch_[i].text); },
        threads_);
    for (const Item& item : batch_) {
      DocumentRecord record;
      record.hash = item.document.hash;
      record.text_bytes = item.document.bytes;
      record.source = item.document.source;
      record.domain = scan_.domain_of[record.source];
      record.pool = item.document.validation ? Pool::kValidation : Pool::kStable;
      for (const std::int32_t id : item.tokens)
        byte_tokens_[record.domain] += tokenizer_.is_byte(id);
      writer_.add(record, item.tokens);
    }
    batch_.clear();
    bytes_ = 0;
  }

  /// Byte-fallback tokens by domain.
  Json byte_tokens() const {
    Json json = Json::object();
    for (std::size_t i = 0; i < byte_tokens_.size(); ++i)
      json[scan_.names.domains[i]] = byte_tokens_[i];
    return json;
  }

 private:
  struct Item {
    Scanned document;
    std::string text;
    std::vector<std::int32_t> tokens;
  };
  const Tokenizer& tokenizer_;
  const Scan& scan_;
  StoreWriter& writer_;
  unsigned threads_;
  std::vector<std::uint64_t> byte_tokens_;
  std::vector<Item> batch_;
  std::size_t bytes_ = 0;
};

/// The options that decide the content of a store.
Json options_json(const DataOptions& options) {
  Json json = fields_to_json(options);
  json.erase("threads");
  if (!options.tokenizer.empty()) {
    json["tokenizer"] = Tokenizer::load(options.tokenizer).hash();
    json.erase("vocab_size");
    json.erase("tokenizer_megabytes");
  }
  return json;
}

/// In words, what of the store's making differs from the request; empty = nothing.
std::vector<std::string> differences(const Json& build, const Json& options,
                                     const std::vector<InputFile>& files) {
  std::vector<std::string> found;
  const Json old_options = build.value("options", Json::object());
  for (const auto& [key, value] : options.items()) {
    const Json old = old_options.value(key, Json());
    if (old != value) found.push_back(key + " was " + old.dump() + ", is " + value.dump());
  }
  std::map<std::string, Json> before;
  for (const Json& line : build.value("inputs", Json::array()))
    before[line.value("name", "")] = line;
  for (const InputFile& file : files) {
    const auto entry = before.find(file.name);
    if (entry == before.end()) {
      found.push_back("input " + file.name + " is new");
      continue;
    }
    const Json line = std::exchange(entry->second, Json());
    const bool same = line.value("bytes", std::uint64_t{0}) == file.bytes &&
                      (line.value("modified", std::int64_t{0}) == file.modified ||
                       line.value("hash", "") == hash_file(file.path));
    if (!same) found.push_back("input " + file.name + " has changed");
  }
  for (const auto& [name, line] : before) {
    if (!line.is_null()) found.push_back("input " + name + " is gone");
  }
  return found;
}

/// The manifest of a store that is already what was asked for.  Throws Error when `out` is
/// something else.
std::optional<Json> existing_store(const fs::path& out, const Json& options,
                                   const std::vector<InputFile>& files, bool force) {
  std::error_code ignored;
  if (!fs::exists(out, ignored)) return std::nullopt;
  if (!fs::is_directory(out, ignored))
    throw Error("data", "--out is a file, expected a folder", out.string());
  if (fs::is_empty(out, ignored)) return std::nullopt;
  if (!fs::exists(out / "tokens.bin", ignored) || !fs::exists(out / "manifest.json", ignored)) {
    throw Error("data", "the folder is not empty and not a token store; nothing was overwritten",
                out.string());
  }
  if (force) return std::nullopt;
  const TokenStore store = TokenStore::open(out);
  const auto found = differences(store.manifest().value("build", Json::object()), options, files);
  if (found.empty()) return store.manifest();
  std::string text = "the store was made otherwise; --force rebuilds it";
  for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 5); ++i) text += "; " + found[i];
  if (found.size() > 5) text += "; and " + std::to_string(found.size() - 5) + " more differences";
  throw Error("data", text, out.string());
}

Json inputs_json(const std::vector<InputFile>& files, const Scan& scan) {
  Json inputs = Json::array();
  for (std::size_t i = 0; i < files.size(); ++i) {
    inputs.push_back(Json{{"name", files[i].name},
                          {"bytes", files[i].bytes},
                          {"modified", files[i].modified},
                          {"hash", scan.file_hashes[i]}});
  }
  return inputs;
}

void check_options(const DataOptions& options) {
  Problems problems("data");
  check_fields(options, problems);
  problems.throw_if_any();
}

}  // namespace

BuildResult build_store(const std::vector<fs::path>& inputs, const fs::path& out,
                        const DataOptions& options, bool force, const ProgressSink& progress,
                        const LogSink& log) {
  check_options(options);
  const std::vector<InputFile> files = list_inputs(inputs);
  const Json chosen = options_json(options);
  if (auto manifest = existing_store(out, chosen, files, force)) return {true, *manifest};

  Scan scan = scan_files(files, progress);
  hold_out(scan, options.validation_fraction);
  const auto is_validation = [](const Scanned& document) { return document.validation; };
  if (log && std::none_of(scan.documents.begin(), scan.documents.end(), is_validation)) {
    log("no validation documents: endpoints cannot be scored on this store");
  }
  const Tokenizer tokenizer = options.tokenizer.empty() ? train_on(files, scan, options, progress)
                                                        : Tokenizer::load(options.tokenizer);
  const auto eos = tokenizer.eos();
  if (!eos) throw Error("data", "the tokenizer has no EOS piece", options.tokenizer);

  StoreWriter writer(out, tokenizer.vocab_size(), tokenizer.bos().value_or(*eos), *eos);
  Encoder encoder(tokenizer, scan, writer, static_cast<unsigned>(options.threads));
  Reporter report(progress, "encode", megabytes(files), "MB");
  reread(files, scan, report, [&](const Scanned& document, std::string_view text) {
    if (!document.dropped) encoder.add(document, text);
  });
  encoder.flush();
  cut_pools(writer.records(), scan.names.sources.size(),
            {options.tuning_fraction, options.decay_fraction});

  Json extra = Json::object();
  extra["byte_fallback_tokens"] = encoder.byte_tokens();
  extra["left_out"] = Json{{"blank_lines", scan.counts.blank_lines},
                           {"empty_documents", scan.counts.empty_documents},
                           {"training_documents_also_in_validation", scan.duplicates_dropped}};
  extra["build"] = Json{{"options", chosen}, {"inputs", inputs_json(files, scan)}};
  writer.finish(scan.names, tokenizer.bytes(), extra);
  return {false, TokenStore::open(out).manifest()};
}

}  // namespace smelt::data
