// From text to a token store: read, hold out, train a tokenizer, encode, cut pools, write.
//
//   BuildResult built = build_store({"data/corpus"}, "data/quick", DataOptions{});
//   TokenStore store = TokenStore::open("data/quick");
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "smelt/core/fields.h"
#include "smelt/core/progress.h"
#include "smelt/data/documents.h"

namespace smelt::data {

struct DataOptions {
  std::int64_t vocab_size = 8192;
  std::string tokenizer;  // empty: train one
  double validation_fraction = 0.02;
  double tuning_fraction = 0.01;
  double decay_fraction = 0.2;
  std::int64_t tokenizer_megabytes = 100;
  int threads = 0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"vocab_size", "pieces of the tokenizer to train", "pieces", 300, 1 << 20},
          self.vocab_size);
    visit(Field{"tokenizer", "sentencepiece .model file to use instead of training one"},
          self.tokenizer);
    visit(Field{"validation_fraction",
                "share of each source's documents held out; unused when an input file is named "
                "*.valid.*",
                "", 0, 0.5},
          self.validation_fraction);
    visit(Field{"tuning_fraction", "share of the other tokens on which learning rates are tried",
                "", 0, 0.5},
          self.tuning_fraction);
    visit(Field{"decay_fraction", "share of the training tokens kept fresh for decay branches", "",
                0, 0.9},
          self.decay_fraction);
    visit(Field{"tokenizer_megabytes", "most text the tokenizer is trained on", "MB", 1, 10000},
          self.tokenizer_megabytes);
    visit(Field{"threads", "threads that encode (0 = all cores); changes no output", "", 0, 1024},
          self.threads);
  }
};

struct BuildResult {
  bool already_built = false;  // the same inputs and options: nothing was done
  Json manifest;               // of the store
};

/// Writes the store into a folder aside and renames it, so `out` is never half a store.  Inputs are
/// folders or files (documents.h).  An `out` made from the same inputs with the same options is
/// left as it is; one made otherwise is an Error that says what differs, unless `force`.
BuildResult build_store(const std::vector<std::filesystem::path>& inputs,
                        const std::filesystem::path& out, const DataOptions& options,
                        bool force = false, const ProgressSink& progress = {},
                        const LogSink& log = {});

}  // namespace smelt::data
