# Third-party libraries.  docs/dependencies.md says why each is here.

find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(ZLIB REQUIRED)
find_package(tomlplusplus REQUIRED)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(simdjson REQUIRED IMPORTED_TARGET simdjson)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)

# fmt stays header-only: the torch wheel ships fmt headers of its own that hide the system's, and
# linking libfmt beside them fails.
add_library(smelt_fmt INTERFACE)
target_compile_definitions(smelt_fmt INTERFACE FMT_HEADER_ONLY=1)

if(SMELT_TORCH)
  include(Torch)
  include(TorchPrecompiled)
endif()

if(SMELT_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# The interpreter of the set-up, for tests and tools written in Python.
find_program(SMELT_PYTHON NAMES python3 HINTS ${PROJECT_SOURCE_DIR}/.venv/bin REQUIRED)
