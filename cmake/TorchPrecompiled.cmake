# One precompiled <torch/torch.h> for all torch folders; without it each source file parses it anew (a minute).
add_library(smelt_torch_pch OBJECT ${CMAKE_CURRENT_LIST_DIR}/torch_pch.cpp)
target_link_libraries(smelt_torch_pch PRIVATE smelt_options smelt_fmt smelt_torch)
target_precompile_headers(smelt_torch_pch PRIVATE <torch/torch.h>)
