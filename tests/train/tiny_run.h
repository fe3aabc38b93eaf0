// A token store and runs small enough to train in milliseconds.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "smelt/core/file.h"
#include "smelt/core/hash.h"
#include "smelt/data/store_writer.h"
#include "smelt/train/run.h"

namespace smelt::train {

inline constexpr std::int64_t kVocab = 32;

/// A folder of this test, removed afterwards.
class TinyRun : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::temp_directory_path() /
            (std::string("smelt-") + info->test_suite_name() + "-" + info->name() + "-" +
             std::to_string(::getpid()));
    std::filesystem::remove_all(root_);
    make_folder(root_);
    write_store(root_ / "store", 60, 1);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  /// Documents that count upwards: easy to learn.  `salt` changes the text, so the fingerprint.
  static void write_store(const std::filesystem::path& folder, int documents, int salt) {
    data::StoreWriter writer(folder, kVocab, 1, 2);
    for (int d = 0; d < documents; ++d) {
      data::DocumentRecord record;
      record.pool = static_cast<data::Pool>(d % 6 < 3 ? 0 : d % 6 - 2);
      record.hash = static_cast<std::uint64_t>(d);
      std::vector<std::int32_t> tokens;
      for (int i = 0; i < 3 + (7 * d) % 20; ++i) tokens.push_back(3 + (salt * d + i) % 28);
      writer.add(record, tokens);
    }
    writer.finish({{"source"}, {"domain"}}, "no real tokenizer", Json::object());
  }

  RunConfig config() const {
    RunConfig run;
    run.name = "tiny";
    run.seed = 5;
    run.model.vocab_size = kVocab;
    run.model.hidden_size = 16;
    run.model.num_hidden_layers = 3;
    run.model.num_attention_heads = 2;
    run.model.num_key_value_heads = 1;
    run.model.head_dim = 8;
    run.model.moe_intermediate_size = 8;
    run.model.num_experts = 4;
    run.model.num_experts_per_tok = 2;
    run.model.norm_topk_prob = true;
    run.model.loop = arch::Loop{2, 2, 2, 0.5};
    run.data.store = std::filesystem::canonical(root_ / "store");
    run.data.row_length = 16;
    run.train.steps = 8;
    run.train.rows = 6;
    run.train.lr = 0.01;
    run.train.warmup_steps = 2;
    run.train.checkpoint_every = 2;
    run.train.router_every = 3;
    return run;
  }

  /// metrics.jsonl without times, line by line.
  static std::vector<std::string> metrics(const std::filesystem::path& folder) {
    std::vector<std::string> lines;
    std::istringstream in(read_file(folder / "metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      Json json = Json::parse(line);
      for (const char* key :
           {"seconds", "tokens_per_second", "flops_per_second", "mfu", "peak_rss_bytes"})
        json.erase(key);
      lines.push_back(json.dump());
    }
    return lines;
  }

  /// Weights and moments, as hashes of their files.
  static std::pair<std::string, std::string> bits(const std::filesystem::path& checkpoint) {
    return {hash_file(checkpoint / "model.safetensors"),
            hash_file(checkpoint / "optimizer.safetensors")};
  }

  std::filesystem::path root_;
};

/// What `call` throws, as text; fails the test when it does not.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

}  // namespace smelt::train
