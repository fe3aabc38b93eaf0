// smelt-torch: the verbs that train, evaluate or look into models.  `smelt` starts it.
#include <torch/torch.h>

#include "cli/verb.h"
#include "cli/verbs.h"

int main(int argc, char** argv) {
  return smelt::cli::run_program(argc, argv, smelt::cli::torch_verbs());
}
