# LibTorch as the target smelt_torch.  Taken, in this order, from CMAKE_PREFIX_PATH (variable or environment),
# Torch_DIR, or the torch wheel in .venv.
#
# A build for CUDA is imported by the paths of its libraries where the CUDA toolkit is not installed:
# find_package(Torch) would stop for want of nvcc, which a program without kernels of its own does not need.
# smeltConfig.cmake includes this file too, for consumers of the installed package.

option(SMELT_TORCH_BY_PATH "Import LibTorch's libraries by path, without find_package(Torch)" OFF)

function(smelt_find_torch_root result)
  set(candidates ${CMAKE_PREFIX_PATH})
  string(REPLACE ":" ";" from_environment "$ENV{CMAKE_PREFIX_PATH}")
  list(APPEND candidates ${from_environment})
  if(SMELT_TORCH_USED)  # an installed smelt remembers which LibTorch it was built with
    list(APPEND candidates ${SMELT_TORCH_USED})
  endif()
  file(GLOB wheel ${CMAKE_CURRENT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  list(APPEND candidates ${wheel})
  foreach(candidate IN LISTS candidates)
    foreach(root ${candidate} ${candidate}/../..)  # people also name share/cmake
      if(EXISTS ${root}/share/cmake/Torch/TorchConfig.cmake)
        get_filename_component(root ${root} ABSOLUTE)
        set(${result} ${root} PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

# Makes smelt_torch out of the files below `root`.
function(smelt_import_torch_by_path root)
  set(libraries "")
  foreach(name torch torch_cpu c10 torch_cuda c10_cuda)
    set(file ${root}/lib/lib${name}.so)
    if(EXISTS ${file})
      add_library(smelt_torch_lib_${name} SHARED IMPORTED)
      set_target_properties(smelt_torch_lib_${name} PROPERTIES IMPORTED_LOCATION ${file} IMPORTED_NO_SONAME ON)
      list(APPEND libraries smelt_torch_lib_${name})
    elseif(NOT name MATCHES "cuda")
      message(FATAL_ERROR "${file} is missing: ${root} is no complete LibTorch")
    endif()
  endforeach()
  target_link_libraries(smelt_torch INTERFACE ${libraries})
  target_compile_definitions(smelt_torch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
  # The CUDA half is used only through what it registers when it is loaded, so it must stay linked; its own
  # libraries lie in sibling wheels, which its RUNPATH names.
  target_link_options(smelt_torch INTERFACE LINKER:--no-as-needed LINKER:--allow-shlib-undefined)
  target_include_directories(smelt_torch SYSTEM INTERFACE
    ${root}/include ${root}/include/torch/csrc/api/include)
endfunction()

smelt_find_torch_root(smelt_torch_root)
if(smelt_torch_root)
  file(STRINGS ${smelt_torch_root}/share/cmake/Torch/TorchConfigVersion.cmake line REGEX "^set.PACKAGE_VERSION ")
  string(REGEX MATCH "[0-9]+\\.[0-9]+(\\.[0-9]+)?" smelt_torch_version "${line}")
  if(smelt_torch_version VERSION_LESS 2.11)
    message(FATAL_ERROR "LibTorch 2.11 or newer is needed, ${smelt_torch_root} is ${smelt_torch_version}")
  endif()
endif()
add_library(smelt_torch INTERFACE)
set(smelt_torch_by_path ${SMELT_TORCH_BY_PATH})
if(smelt_torch_root AND EXISTS ${smelt_torch_root}/lib/libtorch_cuda.so)
  find_package(CUDAToolkit QUIET)
  if(NOT CUDAToolkit_NVCC_EXECUTABLE)
    set(smelt_torch_by_path ON)
  endif()
endif()

if(smelt_torch_by_path)
  message(STATUS "LibTorch ${smelt_torch_version} by path: ${smelt_torch_root}")
  if(NOT smelt_torch_root)
    message(FATAL_ERROR "No LibTorch: run `make setup`, or name one in CMAKE_PREFIX_PATH")
  endif()
  smelt_import_torch_by_path(${smelt_torch_root})
else()
  if(NOT SMELT_TORCH_ROOT_SEEN STREQUAL "${smelt_torch_root}")
    unset(Torch_DIR CACHE)
    unset(c10_LIBRARY CACHE)
    set(SMELT_TORCH_ROOT_SEEN "${smelt_torch_root}" CACHE INTERNAL "LibTorch of the last configure")
  endif()
  find_package(Torch QUIET HINTS ${smelt_torch_root})
  if(NOT Torch_FOUND)
    message(FATAL_ERROR "No LibTorch: run `make setup`, or name one in CMAKE_PREFIX_PATH")
  endif()
  target_link_libraries(smelt_torch INTERFACE ${TORCH_LIBRARIES})
  separate_arguments(smelt_torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
  target_compile_options(smelt_torch INTERFACE ${smelt_torch_flags})
  # The headers of LibTorch are not ours to warn about.
  target_include_directories(smelt_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
endif()
# -fPIC also in programs: a precompiled header serves only those who compile like it.
target_compile_options(smelt_torch INTERFACE -fPIC)
