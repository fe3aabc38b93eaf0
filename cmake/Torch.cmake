# LibTorch as the target smelt_torch, with one precompiled header for all torch folders.

find_package(Torch 2.11 QUIET)
if(NOT Torch_FOUND)
  find_package(Torch REQUIRED)
endif()

add_library(smelt_torch INTERFACE)
target_link_libraries(smelt_torch INTERFACE ${TORCH_LIBRARIES})
separate_arguments(torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
# -fPIC also in programs: a precompiled header serves only those who compile like it.
target_compile_options(smelt_torch INTERFACE ${torch_flags} -fPIC)
# The headers of LibTorch are not ours to warn about.
target_include_directories(smelt_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

add_library(smelt_torch_pch OBJECT ${CMAKE_CURRENT_LIST_DIR}/torch_pch.cpp)
target_link_libraries(smelt_torch_pch PRIVATE smelt_options smelt_fmt smelt_torch)
target_precompile_headers(smelt_torch_pch PRIVATE <torch/torch.h>)
