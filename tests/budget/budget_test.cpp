#include "smelt/budget/budget.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/budget/paper_grid.h"

namespace smelt::budget {
namespace {

const Csv& grid() {
  static const Csv csv = read_csv(SMELT_TEST_DATA "/paper/grid.csv");
  return csv;
}

double cell(std::size_t row, const char* column) {
  return grid().number(row, grid().column(column));
}

TEST(Budget, ReproducesThePapersGrid) {
  std::size_t checked = 0;
  Budget baseline, control;
  for (std::size_t r = 0; r < grid().rows.size(); ++r) {
    if (is_open(grid(), r)) continue;
    const auto model = grid_model(grid(), r);
    const Budget b = count(model, kPaperAttended);
    SCOPED_TRACE(grid().where(r));
    // The reconstruction's own digits.
    EXPECT_NEAR(b.parameters_active / 1e9, cell(r, "calc_active_B"), 5.1e-5);
    EXPECT_NEAR(b.parameters_total / 1e9, cell(r, "calc_total_B"), 5.1e-4);
    EXPECT_NEAR(b.flops_per_token / cell(r, "calc_F_per_token"), 1, 5.1e-5);
    // The published digits.
    EXPECT_NEAR(b.parameters_total / 1e9, cell(r, "pub_total_B"), 5.1e-3);
    EXPECT_NEAR(b.parameters_active / 1e9, cell(r, "pub_active_B"), 5.1e-4);
    if (model.visits() == 1) {
      baseline = b;
      if (model.num_experts == 8) control = b;
      EXPECT_NEAR(sparsity(b, control), cell(r, "calc_S"), 5.1e-5);
    } else {
      const Mismatch off = mismatch(b, baseline);
      EXPECT_NEAR(1 + off.flops, cell(r, "pub_F_ratio"), 5.1e-4);
      EXPECT_NEAR(1 + off.kv_cache, cell(r, "pub_KV_ratio"), 5.1e-4);
      EXPECT_NEAR(sparsity(b, control), cell(r, "calc_S"), 5.1e-5);
    }
    ++checked;
  }
  EXPECT_EQ(checked, 28u);
}

// By hand: H 4, q 6 (3 heads of 2), kv 2, 3 experts of width 5, top-2, 3 layers, layer 2 twice,
// V 7.
TEST(Budget, AgreesWithAHandCount) {
  arch::ModelConfig m;
  m.vocab_size = 7;
  m.hidden_size = 4;
  m.num_hidden_layers = 3;
  m.num_attention_heads = 3;
  m.num_key_value_heads = 1;
  m.head_dim = 2;
  m.moe_intermediate_size = 5;
  m.num_experts = 3;
  m.num_experts_per_tok = 2;
  m.loop = arch::Loop{2, 2, 2, 0.5};
  const Budget b = count(m, 10, 20);
  // One layer: q 24, k and v 16, o 24, router 12, expert 60 each, norms 8, q/k norms 4.
  EXPECT_EQ(b.parameters_total, 3 * (24 + 16 + 24 + 12 + 180 + 8 + 4));
  EXPECT_EQ(b.parameters_active, 3 * (24 + 16 + 24 + 12 + 120 + 8 + 4));
  EXPECT_EQ(b.parameters_executed, 4 * (24 + 16 + 24 + 12 + 120));
  EXPECT_EQ(b.parameters_embedding, 7 * 4 * 2 + 4);
  EXPECT_EQ(b.flops_per_token, 6 * 4 * 196 + 12 * 6 * 10 * 4);
  EXPECT_EQ(b.full_context, 6 * 4 * 196 + 12 * 6 * 20 * 4);
  EXPECT_EQ(b.six_n, 6 * b.parameters_active);
  EXPECT_EQ(b.flops_head, 6 * 28);
  EXPECT_EQ(b.kv_elements_per_token, 2 * 2 * 4);
  EXPECT_EQ(b.executed_layers, 4);
  m.tie_word_embeddings = true;
  EXPECT_EQ(count(m, 10).parameters_embedding, 7 * 4 + 4);
  m.qk_norm = false;
  EXPECT_EQ(count(m, 10).parameters_total, 3 * (24 + 16 + 24 + 12 + 180 + 8));
}

TEST(Budget, TermsAddUp) {
  const auto model = grid_model(grid(), 3);
  const Budget b = count(model, 392);
  double parameters = 0, flops = 0;
  for (const Term& t : b.parameter_terms) parameters += t.count;
  for (const Term& t : b.flops_terms) flops += t.count;
  EXPECT_EQ(parameters, b.parameters_total);
  EXPECT_EQ(flops, b.flops_per_token);
}

TEST(Budget, OneVisitCostsWhatNoLoopCosts) {
  auto model = grid_model(grid(), 2);
  const Budget plain = count(model, 392);
  model.loop = arch::Loop{3, 7, 1, 1.0};
  EXPECT_EQ(count(model, 392).flops_per_token, plain.flops_per_token);
}

}  // namespace
}  // namespace smelt::budget
