// Writes a synthetic study folder:  report_make_study quick|grid FOLDER
#include <cstdio>
#include <cstring>

#include "tests/report/synthetic_study.h"

int main(int argc, char** argv) {
  using namespace smelt::report::test;
  if (argc != 3) {
    std::fprintf(stderr, "usage: report_make_study quick|grid FOLDER\n");
    return 2;
  }
  try {
    write_synthetic_study(argv[2],
                          std::strcmp(argv[1], "grid") == 0 ? grid_study() : quick_study());
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
  return 0;
}
