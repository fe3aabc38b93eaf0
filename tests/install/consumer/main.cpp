// Counts a model and evaluates a law through the installed package: consumer CONFIG
#include <cstdio>

#include "smelt/arch/model_config.h"
#include "smelt/budget/budget.h"
#include "smelt/law/form.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto config = smelt::arch::read_model_config(argv[1]);
  const auto budget = smelt::budget::count(config, smelt::budget::kPaperAttended);
  smelt::law::Law law;
  law.form = &smelt::law::find_form("smelt");
  law.coefficients = {1.4439, 1.366e3, 1.975e6, 0.3703, 0.1530, 0.6594};  // E, A, K, a, b, c
  const double loss = smelt::law::evaluate(law, {.size = 1.33e9, .sparsity = 0.95, .tokens = 50e9});
  std::printf("%.17g %.17g %.17g\n", budget.flops_per_token, budget.kv_elements_per_token, loss);
}
