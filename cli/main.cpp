// smelt: the program users call.  Verbs that need LibTorch run in smelt-torch, so that the others
// start in milliseconds.
#include "cli/verb.h"
#include "cli/verbs.h"

int main(int argc, char** argv) {
  return smelt::cli::run_program(argc, argv, smelt::cli::all_verbs());
}
