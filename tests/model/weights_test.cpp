// Weights on disk: damage is found and named; init has the statistics it claims.
#include "smelt/model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "smelt/core/error.h"
#include "smelt/core/file.h"
#include "tests/model/tiny.h"

namespace smelt::model {
namespace {

using testing::HasSubstr;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string with_header(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &size, 8);
  return file + header + data;
}

TEST(Safetensors, RoundTripKeepsEveryBitAndDtype) {
  TempFolder temp;
  const NamedTensors tensors = {{"a", at::arange(6, at::kFloat).view({2, 3}).t()},
                                {"empty", at::empty({0, 4})},
                                {"scalar", at::tensor(2.5, at::kDouble)},
                                {"i", at::arange(5, at::kLong)},
                                {"h", at::ones({3}, at::kHalf)},
                                {"b", at::ones({3}, at::kBFloat16)},
                                {"u", at::full({7}, 200, at::kByte)},
                                {"n", at::ones({2}, at::kInt)}};
  const auto file = temp.path / "x.safetensors";
  write_safetensors(file, tensors, {{"format", "pt"}});
  const NamedTensors back = read_safetensors(file);
  ASSERT_EQ(back.size(), tensors.size());
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    bytes += tensor.nbytes();
    bool found = false;
    for (const auto& [other, read] : back) {
      if (other != name) continue;
      found = true;
      EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
      EXPECT_TRUE(at::equal(read, tensor)) << name;
    }
    EXPECT_TRUE(found) << name;
  }
  std::uint64_t header = 0;
  const std::string text = read_file(file);
  std::memcpy(&header, text.data(), 8);
  EXPECT_EQ(text.size(), 8 + header + bytes);
  EXPECT_EQ(header % 8, 0u);
  // A view is written as what it shows, not as the storage behind it.
  write_safetensors(file, {{"v", at::zeros({1000}).narrow(0, 3, 2)}});
  EXPECT_LT(std::filesystem::file_size(file), 200u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(temp.path), {}), 1);
}

TEST(Safetensors, DamageIsNamed) {
  TempFolder temp;
  const auto file = temp.path / "x.safetensors";
  write_safetensors(file, {{"first", at::ones({4, 4})}, {"second", at::ones({3})}});
  const std::string whole = read_file(file);
  const auto read = [&] { read_safetensors(file); };
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_file_atomic(file, whole.substr(0, size));
    EXPECT_THAT(error_of(read), HasSubstr("x.safetensors")) << size;
  }
  write_file_atomic(file, whole.substr(0, whole.size() - 1));
  EXPECT_THAT(error_of(read), HasSubstr("tensor \"second\""));
  write_file_atomic(file, whole + "x");
  EXPECT_THAT(error_of(read), HasSubstr("1 bytes after the last tensor"));
  std::string huge = whole;
  huge[6] = 1;
  write_file_atomic(file, huge);
  EXPECT_THAT(error_of(read), HasSubstr("the header claims"));
  // One flipped bit anywhere in the header: an error that names the file, or a spelling of a name.
  std::uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  for (std::size_t at = 0; at < 8 + header; ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    write_file_atomic(file, flipped);
    const std::string message = error_of(read);
    if (message == "no error") {
      const NamedTensors tensors = read_safetensors(file);
      EXPECT_TRUE(tensors.size() != 2 || tensors[0].first != "first" ||
                  tensors[1].first != "second")
          << at;
    } else {
      EXPECT_THAT(message, HasSubstr("x.safetensors")) << at;
    }
  }
}

TEST(Safetensors, HeadersThatLieAreRefused) {
  TempFolder temp;
  const auto file = temp.path / "x.safetensors";
  const auto message = [&](const std::string& header, std::size_t data) {
    write_file_atomic(file, with_header(header, std::string(data, '\1')));
    return error_of([&] { read_safetensors(file); });
  };
  const auto tensor = [](const char* name, const char* dtype, const char* shape, int begin,
                         int end) {
    return std::string("\"") + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
           ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
  };
  EXPECT_EQ(message("{" + tensor("a", "F32", "[2]", 0, 8) + "}", 8), "no error");
  EXPECT_THAT(
      message("{" + tensor("a", "F32", "[2]", 0, 8) + "," + tensor("b", "F32", "[2]", 4, 12) + "}",
              12),
      HasSubstr("\"b\" overlaps \"a\""));
  EXPECT_THAT(message("{" + tensor("a", "F32", "[2]", 4, 12) + "}", 12),
              HasSubstr("4 bytes before tensor \"a\""));
  EXPECT_THAT(message("{" + tensor("a", "F32", "[3]", 0, 8) + "}", 8),
              HasSubstr("do not fit shape [3]"));
  EXPECT_THAT(message("{" + tensor("a", "F32", "[4611686018427387904,4]", 0, 8) + "}", 8),
              HasSubstr("tensor \"a\""));
  EXPECT_THAT(message("{" + tensor("a", "F32", "[2]", 0, 16) + "}", 8), HasSubstr("cut short"));
  EXPECT_THAT(message("{" + tensor("a", "F32", "[2]", 8, 0) + "}", 8), HasSubstr("run backwards"));
  EXPECT_THAT(message("{" + tensor("a", "F8", "[8]", 0, 8) + "}", 8),
              HasSubstr("\"F8\" is not supported"));
  EXPECT_THAT(message("{" + tensor("a", "F32", "[-2]", 0, 8) + "}", 8), HasSubstr("whole numbers"));
  EXPECT_THAT(message("{\"a\":{}}", 8), HasSubstr("expected dtype, shape and data_offsets"));
  EXPECT_THAT(message("[1]", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(message("{\"a\"", 0), HasSubstr("broken JSON"));
  EXPECT_THAT(error_of([&] { read_safetensors(temp.path / "none.safetensors"); }),
              HasSubstr("none.safetensors"));
}

TEST(Safetensors, AFailedWriteKeepsTheOldFile) {
  TempFolder temp;
  EXPECT_THAT(error_of([&] {
                write_safetensors(temp.path / "no" / "x.safetensors", {{"a", at::ones({2})}});
              }),
              HasSubstr("x.safetensors"));
  EXPECT_THAT(error_of([&] {
                write_safetensors(temp.path / "x", {{"a", at::ones({2})}, {"a", at::ones({2})}});
              }),
              HasSubstr("given twice"));
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP();
  EXPECT_TRUE(std::filesystem::is_empty(temp.path));
}

TEST(Weights, LoadingIsStrictAndListsEverything) {
  TempFolder temp;
  const Decoder decoder = tiny_decoder(tiny_config());
  save_decoder(decoder, temp.path);
  const Decoder back = load_decoder(temp.path);
  EXPECT_EQ(back.config, decoder.config);
  const auto a = named_parameters(decoder), b = named_parameters(back);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
  }
  NamedTensors tensors = a;
  tensors[0].first = "model.embed.weight";
  tensors[1].second = at::ones({3});
  write_safetensors(temp.path / "model.safetensors", tensors);
  const std::string message = error_of([&] { load_decoder(temp.path); });
  EXPECT_THAT(message, HasSubstr("\"model.embed_tokens.weight\" is missing"));
  EXPECT_THAT(message, HasSubstr("\"model.embed.weight\" is unexpected"));
  EXPECT_THAT(message, HasSubstr("expected shape [20], got [3]"));
}

TEST(Weights, RouterBiasesAreOneRowPerVisitAndAllOrNone) {
  TempFolder temp;
  arch::ModelConfig config = tiny_config();
  config.loop = arch::Loop{2, 2, 3, 0.5};
  Decoder decoder = tiny_decoder(config);
  add_router_biases(decoder);
  decoder.layers[1].gate_bias.copy_(
      at::arange(3 * config.num_experts).view({3, config.num_experts}));
  save_decoder(decoder, temp.path);
  const Decoder back = load_decoder(temp.path);
  EXPECT_TRUE(at::equal(back.layers[1].gate_bias, decoder.layers[1].gate_bias));
  EXPECT_TRUE(at::equal(clone(back).layers[1].gate_bias, decoder.layers[1].gate_bias));
  EXPECT_EQ(back.layers[0].gate_bias.sizes(), (std::vector<std::int64_t>{1, config.num_experts}));

  NamedTensors tensors = named_state(decoder);
  EXPECT_EQ(tensors.size(), named_parameters(decoder).size() + decoder.layers.size());
  for (const auto& [name, tensor] : tensors) {
    if (name == bias_name(0)) {
      EXPECT_EQ(tensor.dim(), 1);
    }
  }
  std::erase_if(tensors, [](const auto& one) { return one.first == bias_name(1); });
  write_safetensors(temp.path / "model.safetensors", tensors);
  EXPECT_THAT(error_of([&] { load_decoder(temp.path); }),
              HasSubstr("\"model.layers.1.mlp.gate.e_score_correction_bias\" is missing"));
}

TEST(Weights, ATiedHeadIsStoredOnce) {
  TempFolder temp;
  arch::ModelConfig config = tiny_config();
  config.tie_word_embeddings = true;
  const Decoder decoder = init_decoder(config, 3);
  EXPECT_TRUE(decoder.head.is_same(decoder.embed));
  EXPECT_TRUE(clone(decoder).head.is_same(clone(decoder).head) == false);
  save_decoder(decoder, temp.path);
  const Decoder back = load_decoder(temp.path);
  EXPECT_TRUE(back.head.is_same(back.embed));
  for (const auto& [name, tensor] : read_safetensors(temp.path / "model.safetensors")) {
    EXPECT_NE(name, "lm_head.weight");
  }
}

TEST(Weights, InitHasTheStatisticsItClaims) {
  arch::ModelConfig config = tiny_config();
  config.hidden_size = 64;
  config.moe_intermediate_size = 32;
  config.vocab_size = 500;
  config.head_dim = 16;
  const Decoder decoder = init_decoder(config, 7, 0.03);
  for (const auto& [name, tensor] : named_parameters(decoder)) {
    if (tensor.dim() == 1) {
      EXPECT_TRUE(at::equal(tensor, at::ones_like(tensor))) << name;
      continue;
    }
    const bool writes =
        name.find("o_proj") != std::string::npos || name.find("down_proj") != std::string::npos;
    const double deviation = writes ? 0.03 / std::sqrt(2.0 * 4) : 0.03;  // four executed layers
    const auto n = static_cast<double>(tensor.numel());
    const at::Tensor values = tensor.to(at::kDouble) / deviation;
    EXPECT_NEAR(values.mean().item<double>(), 0, 5 / std::sqrt(n)) << name;
    EXPECT_NEAR(values.square().mean().item<double>(), 1, 5 * std::sqrt(2 / n)) << name;
    EXPECT_NEAR(values.pow(4).mean().item<double>(), 3, 5 * std::sqrt(96 / n)) << name;
  }
  EXPECT_FALSE(at::equal(decoder.layers[0].q_proj, decoder.layers[1].q_proj));
  EXPECT_FALSE(at::equal(decoder.layers[0].gate_up[0], decoder.layers[0].gate_up[1]));
  EXPECT_TRUE(at::equal(decoder.embed, init_decoder(config, 7, 0.03).embed));
  EXPECT_FALSE(at::equal(decoder.embed, init_decoder(config, 8, 0.03).embed));
}

TEST(Weights, WithoutAWordTheInitShrinksWithTheRootOfTheHiddenSize) {
  arch::ModelConfig config = tiny_config();
  config.hidden_size = 1000;
  EXPECT_DOUBLE_EQ(small_init_std(config), 0.02);
  config.hidden_size = 40;
  EXPECT_DOUBLE_EQ(small_init_std(config), 0.1);
  EXPECT_TRUE(at::equal(init_decoder(config, 7).embed, init_decoder(config, 7, 0.1).embed));
}

TEST(Weights, APairSharesTheInitOfTensorsItShares) {
  arch::ModelConfig looped = tiny_config(), baseline = tiny_config();
  baseline.loop.reset();
  baseline.num_experts = 9;
  const Decoder a = init_decoder(looped, 5), b = init_decoder(baseline, 5);
  EXPECT_TRUE(at::equal(a.embed, b.embed));
  EXPECT_TRUE(at::equal(a.layers[2].q_proj, b.layers[2].q_proj));
  // What writes into the stream is the same up to the depth's factor.
  EXPECT_TRUE(
      at::allclose(a.layers[2].o_proj * std::sqrt(8.0), b.layers[2].o_proj * std::sqrt(6.0)));
}

}  // namespace
}  // namespace smelt::model
