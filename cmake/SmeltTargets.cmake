# Functions that declare the project's targets.
#
#   smelt_folder(<name> [USES folder...] [TORCH])   one library per folder under smelt/
#   smelt_test(<name> SOURCES... USES... [SLOW])     one GoogleTest binary per folder under tests/
#   smelt_python_test(<name> <script> <label>)       one unittest script

add_library(smelt_options INTERFACE)
target_compile_features(smelt_options INTERFACE cxx_std_20)
target_compile_options(smelt_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow
  -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)  # GCC 12 misfires on std::string
target_include_directories(smelt_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>
  $<BUILD_INTERFACE:${CMAKE_CURRENT_BINARY_DIR}/generated>)

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
# Programs find LibTorch from the build tree and where they are installed.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

if(SMELT_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()

# ccache where it is there and nobody chose a launcher.  Its sloppiness is what precompiled headers need.
find_program(SMELT_CCACHE ccache NO_CACHE)
if(SMELT_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${SMELT_CCACHE})
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()

function(smelt_folder name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "TORCH" "" "USES")
  if(ARG_TORCH AND NOT SMELT_TORCH)
    return()
  endif()
  add_library(smelt_${name} STATIC)
  add_library(smelt::${name} ALIAS smelt_${name})
  set_target_properties(smelt_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(smelt_${name} PRIVATE $<BUILD_INTERFACE:smelt_options>)
  if(SMELT_WARNINGS_AS_ERRORS)
    target_compile_options(smelt_${name} PRIVATE -Werror)
  endif()
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(smelt_${name} PUBLIC smelt_${used})
  endforeach()
  target_compile_features(smelt_${name} PUBLIC cxx_std_20)
  target_include_directories(smelt_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(smelt_${name} PRIVATE $<BUILD_INTERFACE:smelt_fmt>)
  if(ARG_TORCH)
    target_link_libraries(smelt_${name} PUBLIC
      $<BUILD_INTERFACE:smelt_torch> $<INSTALL_INTERFACE:smelt::torch>)
    target_precompile_headers(smelt_${name} REUSE_FROM smelt_torch_pch)
  endif()
  if(ARG_TORCH)
    set_property(GLOBAL APPEND PROPERTY SMELT_TORCH_FOLDERS smelt_${name})
  else()
    set_property(GLOBAL APPEND PROPERTY SMELT_PLAIN_FOLDERS smelt_${name})
  endif()
  add_subdirectory(${PROJECT_SOURCE_DIR}/smelt/${name})
endfunction()

# A test written in Python: smelt_python_test(<name> <script> <label>).  It gets the folders of source and build.
function(smelt_python_test name script label)
  add_test(NAME ${name} COMMAND ${SMELT_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/${script} -v)
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 600
    ENVIRONMENT "SMELT_SOURCE_DIR=${PROJECT_SOURCE_DIR};SMELT_BUILD_DIR=${CMAKE_BINARY_DIR};CMAKE_COMMAND=${CMAKE_COMMAND};OMP_NUM_THREADS=1")
endfunction()

function(smelt_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "SLOW;TORCH" "" "SOURCES;USES")
  if(ARG_TORCH AND NOT SMELT_TORCH)
    return()
  endif()
  add_executable(${name}_test ${ARG_SOURCES})
  target_link_libraries(${name}_test PRIVATE
    smelt_options smelt_fmt GTest::gtest GTest::gmock GTest::gtest_main)
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(${name}_test PRIVATE smelt_${used})
  endforeach()
  if(SMELT_WARNINGS_AS_ERRORS)
    target_compile_options(${name}_test PRIVATE -Werror)
  endif()
  if(ARG_TORCH)
    target_link_libraries(${name}_test PRIVATE smelt_torch)
    target_precompile_headers(${name}_test REUSE_FROM smelt_torch_pch)
  endif()
  target_compile_definitions(${name}_test PRIVATE
    SMELT_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
    SMELT_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    SMELT_BIN_DIR="${CMAKE_BINARY_DIR}/bin")
  if(ARG_SLOW)
    set(label slow)
  else()
    set(label unit)
  endif()
  gtest_discover_tests(${name}_test
    PROPERTIES LABELS ${label} TIMEOUT 600
               ENVIRONMENT "OMP_NUM_THREADS=1;MKL_NUM_THREADS=1"
    DISCOVERY_TIMEOUT 120)
endfunction()
