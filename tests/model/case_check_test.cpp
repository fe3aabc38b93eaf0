// The numerical cases, and that a wrong model, a wrong expectation or a broken file fails them.
#include "smelt/model/case_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "smelt/core/error.h"
#include "smelt/core/file.h"
#include "smelt/core/json.h"
#include "tests/model/tiny.h"

namespace smelt::model {
namespace {

using testing::Contains;
using testing::HasSubstr;

const std::filesystem::path kCases = std::filesystem::path(SMELT_TEST_DATA) / "cases";
const std::vector<std::string> kNames = {"all_experts",
                                         "baseline",
                                         "documents",
                                         "loop_half",
                                         "loop_one_layer_scale_1",
                                         "loop_three_visits_one_kv_head",
                                         "no_qk_norm",
                                         "no_topk_renorm",
                                         "one_visit_theta_eps",
                                         "router_ties",
                                         "tied_embeddings",
                                         "transformers"};

std::string all_lines(const CaseResult& result) {
  std::string text = result.name + "\n";
  for (const auto& [kind, worst] : result.worst) text += kind + " " + std::to_string(worst) + "\n";
  for (const std::string& line : result.problems) text += line + "\n";
  return text;
}

class Case : public testing::TestWithParam<std::string> {};
TEST_P(Case, WithinTolerance) {
  const CaseResult result = check_case(kCases / GetParam());
  EXPECT_TRUE(result.passed) << all_lines(result);
  EXPECT_EQ(result.name, GetParam());
  EXPECT_GE(result.worst.size(), 8u);
}
INSTANTIATE_TEST_SUITE_P(All, Case, testing::ValuesIn(kNames),
                         [](const auto& given) { return given.param; });

TEST(CaseCheck, ProbeCaseIsNeitherPassedNorFailed) {
  const CaseResult result = check_case(kCases / "probe-loop");
  EXPECT_FALSE(result.passed);
  EXPECT_THAT(result.note, HasSubstr("probe case"));
  EXPECT_TRUE(result.problems.empty());
  EXPECT_TRUE(to_json(result)["passed"].is_null());
}

/// Each entry breaks the model in one way; the case named must notice.
TEST(CaseCheck, WrongModelsFail) {
  struct Wrong {
    std::string name, in;
    std::function<void(Decoder&)> change;
  };
  const std::vector<Wrong> wrongs = {
      {"scale on one visit only", "loop_half",
       [](Decoder& d) { d.schedule[1].residual_scale = 1; }},
      {"layer by layer instead of block loop", "loop_half",
       [](Decoder& d) { std::swap(d.schedule[2], d.schedule[3]); }},
      {"no second visit", "loop_half",
       [](Decoder& d) { d.schedule.erase(d.schedule.begin() + 3, d.schedule.begin() + 5); }},
      {"epsilon", "baseline", [](Decoder& d) { d.config.rms_norm_eps = 1e-5; }},
      {"theta", "one_visit_theta_eps", [](Decoder& d) { d.config.rope_theta = 1e4; }},
      {"renormalised", "no_topk_renorm", [](Decoder& d) { d.config.norm_topk_prob = true; }},
      {"fewer experts", "baseline", [](Decoder& d) { d.config.num_experts_per_tok = 1; }},
      {"final norm", "tied_embeddings", [](Decoder& d) { d.final_norm = d.final_norm * 1.001; }},
      {"gate and up swapped", "baseline",
       [](Decoder& d) {
         auto& w = d.layers[0].gate_up;
         const auto half = w.size(1) / 2;
         w = at::cat({w.narrow(1, half, half), w.narrow(1, 0, half)}, 1);
       }},
      {"head order", "baseline",
       [](Decoder& d) { d.layers[1].q_proj = d.layers[1].q_proj.roll(d.config.head_dim, 0); }},
      {"no q norm", "baseline",
       [](Decoder& d) { d.layers[0].q_norm = at::ones_like(d.layers[0].q_norm); }},
      {"an expert that is another", "baseline",
       [](Decoder& d) { d.layers[2].down = d.layers[2].down.roll(1, 0); }},
  };
  for (const Wrong& wrong : wrongs) {
    Decoder decoder = load_decoder(kCases / wrong.in);
    ASSERT_TRUE(check_case(kCases / wrong.in, decoder).passed) << wrong.in;
    wrong.change(decoder);
    const CaseResult result = check_case(kCases / wrong.in, decoder);
    EXPECT_FALSE(result.passed) << wrong.name;
    EXPECT_FALSE(result.problems.empty()) << wrong.name;
  }
}

/// A copy of a case with one change in its expectations.
struct CopiedCase {
  TempFolder temp;
  std::filesystem::path folder = temp.path / "copy";
  explicit CopiedCase(const std::string& name) {
    std::filesystem::copy(kCases / name, folder, std::filesystem::copy_options::recursive);
  }
  void change_json(const std::function<void(Json&)>& change) {
    Json json = read_json(folder / "expected.json");
    change(json);
    write_file_atomic(folder / "expected.json", to_text(json));
  }
  void change_tensors(const std::function<void(NamedTensors&)>& change) {
    NamedTensors tensors = read_safetensors(folder / "expected.safetensors");
    change(tensors);
    write_safetensors(folder / "expected.safetensors", tensors);
  }
};

at::Tensor& named(NamedTensors& tensors, const std::string& name) {
  for (auto& [own, tensor] : tensors) {
    if (own == name) return tensor;
  }
  throw Error("test", "no tensor " + name);
}

TEST(CaseCheck, EachToleranceIsApplied) {
  struct Shift {
    std::string kind;
    std::function<void(CopiedCase&, double)> move;  // by a multiple of the tolerance
  };
  const auto json_shift = [](const std::string& path, double step) {
    return [=](CopiedCase& c, double times) {
      c.change_json([&](Json& j) {
        Json& value = j.at(Json::json_pointer(path));
        value = value.get<double>() + times * step;
      });
    };
  };
  const std::vector<Shift> shifts = {
      {"loss", json_shift("/loss", 1e-5)},
      {"per_token_nll", json_shift("/per_token_nll/0/0", 1e-4)},
      {"objective", json_shift("/objective/value", 1e-5)},
      {"lb_loss", json_shift("/lb_loss/2", 1e-4)},
      {"grad_norm",
       [&](CopiedCase& c, double t) {
         c.change_json(
             [&](Json& j) { j["grad_norm"] = j["grad_norm"].get<double>() * (1 + t * 1e-4); });
       }},
      {"z_loss",
       [&](CopiedCase& c, double t) {
         c.change_json([&](Json& j) {
           const double z = j["z_loss"][1].get<double>();
           j["z_loss"][1] = z + t * 1e-4 * std::max(1.0, z);
         });
       }},
      {"objective_grad_norm",
       [&](CopiedCase& c, double t) {
         c.change_json([&](Json& j) {
           j["objective"]["grad_norm"] = j["objective"]["grad_norm"].get<double>() * (1 + t * 1e-4);
         });
       }},
      {"logits",
       [&](CopiedCase& c, double t) {
         c.change_tensors([&](NamedTensors& n) { named(n, "logits")[1][2][3] += t * 1e-4; });
       }},
      {"gradients",
       [&](CopiedCase& c, double t) {
         c.change_tensors([&](NamedTensors& n) {
           at::Tensor& g = named(n, "grad.model.layers.1.mlp.gate.weight");
           g[0][0] += t * 1e-4 * g.abs().max();
         });
       }},
      {"objective_gradients",
       [&](CopiedCase& c, double t) {
         c.change_tensors([&](NamedTensors& n) {
           at::Tensor& g = named(n, "objective_grad.lm_head.weight");
           g[0][0] += t * 1e-4 * g.abs().max();
         });
       }},
  };
  for (const Shift& shift : shifts) {
    CopiedCase within("loop_half"), beyond("loop_half");
    shift.move(within, 0.4);
    shift.move(beyond, 1.6);
    EXPECT_TRUE(check_case(within.folder).passed) << all_lines(check_case(within.folder));
    const CaseResult result = check_case(beyond.folder);
    EXPECT_FALSE(result.passed) << shift.kind;
    EXPECT_THAT(result.problems, Contains(testing::StartsWith(shift.kind + ":"))) << shift.kind;
  }
}

TEST(CaseCheck, EveryKindOfFailureIsNamed) {
  const auto problems_of = [](const std::function<void(CopiedCase&)>& change) {
    CopiedCase c("documents");
    change(c);
    const CaseResult result = check_case(c.folder);
    EXPECT_FALSE(result.passed);
    return result.problems;
  };
  const auto json = [](auto change) { return [=](CopiedCase& c) { c.change_json(change); }; };
  const auto tensors = [](auto change) { return [=](CopiedCase& c) { c.change_tensors(change); }; };
  const auto expect = [&](const std::function<void(CopiedCase&)>& change, const std::string& text) {
    EXPECT_THAT(problems_of(change), Contains(HasSubstr(text)));
  };
  expect(tensors([](NamedTensors& n) { n.erase(n.begin()); }),
         "is missing in expected.safetensors");
  expect(tensors([](NamedTensors& n) { n.emplace_back("grad.more", at::ones({2})); }),
         "\"grad.more\" in expected.safetensors is unexpected");
  expect(tensors([](NamedTensors& n) {
           at::Tensor& g = named(n, "grad.model.norm.weight");
           g = g.view({1, -1});
         }),
         "expected shape [1, 24], got [24]");
  expect(tensors([](NamedTensors& n) { named(n, "logits")[0][0][0] = NAN; }),
         "logits: is not a number");
  expect(json([](Json& j) { j["per_token_nll"][0][0] = 1.0; }),
         "the target is masked but expected scored (row 0, position 0)");
  expect(json([](Json& j) {
           for (auto& v : j["per_token_nll"][4]) v = nullptr;
         }),
         "the target is scored but expected masked (row 4, position 0)");
  expect(json([](Json& j) {
           auto& set = j["experts"][1][2][3];
           const auto other = [&](int e) { return set[0] != e && set[1] != e; };
           for (int e = 0; e < 6; ++e)
             if (other(e)) {
               set[0] = e;
               break;
             }
         }),
         "experts: 1 of 60 tokens choose another set (executed layer 2)");
  expect(json([](Json& j) { j["targets"] = 1; }), "targets: expected 1");
  expect(json([](Json& j) { j["executed"][1]["residual_scale"] = 0.25; }), "executed: expected");
  expect(json([](Json& j) { j.erase("loss"); }), "missing key \"loss\"");
  expect(json([](Json& j) { j["schema"] = "smelt-case-9"; }), "expected schema \"smelt-case-1\"");
  expect([](CopiedCase& c) { std::filesystem::remove(c.folder / "tokens.json"); }, "tokens.json");
  expect([](CopiedCase& c) { std::filesystem::remove(c.folder / "model.safetensors"); },
         "model.safetensors");
  expect(
      [](CopiedCase& c) { write_file_atomic(c.folder / "expected.json", "{\"loss\": 1,\n  oops"); },
      "expected.json:2");
  expect(
      [](CopiedCase& c) {
        Json j = read_json(c.folder / "tokens.json");
        j["tokens"][2][5] = 40;
        write_file_atomic(c.folder / "tokens.json", to_text(j));
      },
      "token id 40 is outside the vocabulary of 40 (row 2, position 5)");
  expect([](CopiedCase& c) { std::filesystem::remove_all(c.folder); }, "no such case folder");
}

TEST(CaseCheck, OrderOfTheExpertsDoesNotMatterButTheSetDoes) {
  CopiedCase c("baseline");
  c.change_json([](Json& j) { std::swap(j["experts"][0][0][0][0], j["experts"][0][0][0][1]); });
  EXPECT_TRUE(check_case(c.folder).passed);
}

}  // namespace
}  // namespace smelt::model
