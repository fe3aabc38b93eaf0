// Endpoint tables: columns, defaults, and every fault at once with its row.
#include "smelt/law/endpoints.h"

#include <gtest/gtest.h>

#include "tests/core/expect_error.h"

namespace smelt::law {
namespace {

using smelt::testing::expect_error;

Endpoints read(const std::string& text, const Columns& columns = {}) {
  return endpoints_from(parse_csv(text, "e.csv"), columns);
}

TEST(Endpoints, StudyTable) {
  const Endpoints table = read(
      "arch,scale,sparsity,sparsity_own,cell,seed,flops_per_token,tokens,loss,lr,loss:Code\r\n"
      "baseline,S,0.85,0.85,S-85,3,\"1,330,000\",1e6,3.25,0.001,2.5\r\n"
      "smelt,S,0.85,0.84,S-85,3,1340000,1e6,3.2,0.001,2.4\r\n");
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.groups(), (std::vector<std::string>{"baseline", "smelt"}));
  const Point point = table.points("baseline").at(0);
  EXPECT_EQ(point.size, 1.33e6);
  EXPECT_EQ(point.tokens, 1e6);
  EXPECT_EQ(point.loss, 3.25);
  EXPECT_EQ(point.sparsity, 0.85);
  EXPECT_EQ(point.cell, "S-85");
  EXPECT_EQ(point.seed, 3);
  EXPECT_EQ(point.weight, 1);
  EXPECT_EQ(point.where, "e.csv:2");
  EXPECT_EQ(table.csv.number(1, table.csv.column("loss:Code")), 2.4);  // extra columns are kept
  expect_error([&] { table.points("moe"); },
               "[law] no rows of \"moe\"; there are baseline or smelt (e.csv)");
}

TEST(Endpoints, OwnColumnNamesAndDefaults) {
  const auto columns = parse_columns({"N=params", "D=toks", "loss=final"});
  const Endpoints table = read("params,toks,final\n1e6,2e6,3\n", columns);
  EXPECT_EQ(table.rows[0].size, 1e6);
  EXPECT_EQ(table.rows[0].sparsity, 0);
  EXPECT_EQ(table.rows[0].group, "");
  EXPECT_EQ(read("scale,flops_per_token,tokens,loss\nxl,1,2,3\n").rows[0].cell, "xl/0");
  expect_error([] { parse_columns({"Q=x", "N"}); },
               "[law] columns: expected KEY=COLUMN with KEY one of F, N, C, S, D, N_rec, r, X, "
               "loss, weight, "
               "cell, seed or group, got \"Q=x\"\n"
               "[law] columns: expected KEY=COLUMN with KEY one of F, N, C, S, D, N_rec, r, X, "
               "loss, weight, "
               "cell, seed or group, got \"N\"");
}

TEST(Endpoints, NamedColumnsAreThereAndNamedOnce) {
  expect_error([] { parse_columns({"N=a", "loss=b", "C=c"}); }, "[law] columns: two for C");
  // A column that was named is not replaced by another, and one that is optional is not left out.
  const Form& form = find_form("chinchilla");
  std::vector<std::string> messages;
  const Csv csv = parse_csv("params,tokens,loss\n1e6,2e6,3\n", "e.csv");
  const Columns columns = guess_columns(
      csv, parse_columns({"loss=final", "weight=w"}, columns_of(form)), form, messages);
  EXPECT_TRUE(messages.empty());
  expect_error([&] { endpoints_from(csv, columns); },
               "[law] no column \"final\"; there are params, tokens or loss (e.csv)\n"
               "[law] no column \"w\"; there are params, tokens or loss (e.csv)");
}

TEST(Endpoints, CommonColumnNamesAreFoundAndSaid) {
  const Form& form = find_form("chinchilla");
  std::vector<std::string> messages;
  const Csv csv = parse_csv("N,Training Tokens,final_loss\n1e6,2e6,3\n", "e.csv");
  const Columns columns = guess_columns(csv, columns_of(form), form, messages);
  EXPECT_EQ(columns.size, "N");
  EXPECT_EQ(columns.tokens, "Training Tokens");
  EXPECT_EQ(columns.loss, "final_loss");
  EXPECT_EQ(messages, (std::vector<std::string>{"column \"N\" is read as N, parameters",
                                                "column \"Training Tokens\" is read as D, tokens",
                                                "column \"final_loss\" is read as the loss"}));
  messages.clear();
  const Csv named = parse_csv("params,n,tokens,loss\n1,2,3,4\n", "e.csv");
  EXPECT_EQ(guess_columns(named, columns_of(form), form, messages).size, "params");
  EXPECT_TRUE(messages.empty());  // nothing was guessed
  expect_error(
      [&] {
        guess_columns(parse_csv("n,size,tokens,loss\n1,2,3,4\n", "e.csv"), columns_of(form), form,
                      messages);
      },
      "[law] N, parameters may be column n or size: say which by --columns (e.csv)");
}

TEST(Endpoints, FormsReadTheColumnsThatTheyNeed) {
  const Endpoints looped = read("params,recurrent_params,visits,tokens,loss\n1e6,2e6,3,5e6,3\n",
                                columns_of(find_form("recurrence")));
  EXPECT_EQ(looped.rows[0].recurrent, 2e6);
  EXPECT_EQ(looped.rows[0].visits, 3);
  const Endpoints power = read("compute,loss\n1e18,3\n", columns_of(find_form("power")));
  EXPECT_EQ(power.rows[0].size, 1e18);
  EXPECT_EQ(power.rows[0].tokens, 1);
  EXPECT_EQ(read("params,experts,loss\n1e6,8,3\n", columns_of(find_form("saturating-experts")))
                .rows[0]
                .experts,
            8);
  expect_error(
      [] { read("params,experts,loss\n1e6,0.5,3\n", columns_of(find_form("saturating-experts"))); },
      "[law] column \"experts\": expected at least 1, got 0.5 (e.csv:2)");
}

TEST(Endpoints, EveryFaultAtOnce) {
  expect_error(
      [] {
        read(
            "flops_per_token,tokens,loss,sparsity,seed,weight\n"
            "1e6,2e6,nan,0.5,0,1\n"
            "1e6,,3,0.5,0,1\n"
            "-1,2e6,3,1.5,x,-2\n");
      },
      "[law] column \"loss\": expected a finite number, got \"nan\" (e.csv:2)\n"
      "[law] column \"tokens\": the cell is empty (e.csv:3)\n"
      "[law] column \"flops_per_token\": expected a number above 0, got -1 (e.csv:4)\n"
      "[law] column \"sparsity\": expected at least 0 and below 1, got 1.5 (e.csv:4)\n"
      "[law] column \"weight\": expected at least 0, got -2 (e.csv:4)\n"
      "[law] column \"seed\": expected a whole number, got \"x\" (e.csv:4)");
}

TEST(Endpoints, HeaderFaults) {
  expect_error([] { read("params,tokens,final\n1,2,3\n"); },
               "[law] no column \"flops_per_token\"; there are params, tokens or final (e.csv)\n"
               "[law] no column \"loss\"; there are params, tokens or final (e.csv)");
  expect_error([] { read("flops_per_token,tokens,loss,loss\n1,2,3,4\n"); },
               "[core] column \"loss\" appears twice (e.csv)");
  expect_error([] { read("flops_per_token,tokens,loss\n"); },
               "[law] no rows below the header (e.csv)");
}

}  // namespace
}  // namespace smelt::law
