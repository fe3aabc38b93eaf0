# Install and export: `find_package(smelt COMPONENTS law budget)`, then link smelt::law, smelt::model, ...
# The torch-free half is a package of its own, so that its consumers need no LibTorch.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/smelt)
get_property(plain_folders GLOBAL PROPERTY SMELT_PLAIN_FOLDERS)
get_property(torch_folders GLOBAL PROPERTY SMELT_TORCH_FOLDERS)

# COMPONENT plain is the torch-free half alone (cmake --install BUILD --component plain).
install(TARGETS ${plain_folders} EXPORT smeltTargets COMPONENT plain)
install(TARGETS smelt COMPONENT plain)
install(EXPORT smeltTargets NAMESPACE smelt:: DESTINATION ${package_folder} COMPONENT plain)
install(DIRECTORY smelt/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/smelt COMPONENT plain FILES_MATCHING PATTERN "*.h")
if(SMELT_TORCH)
  if(torch_folders)
    install(TARGETS ${torch_folders} EXPORT smeltTorchTargets COMPONENT torch)
    install(EXPORT smeltTorchTargets NAMESPACE smelt:: DESTINATION ${package_folder} COMPONENT torch)
  endif()
  install(TARGETS smelt_torch_program COMPONENT torch)
  install(FILES cmake/Torch.cmake DESTINATION ${package_folder} COMPONENT torch)
endif()

# Component names as users write them: law, budget, model, ...
list(TRANSFORM torch_folders REPLACE "^smelt_" "" OUTPUT_VARIABLE SMELT_TORCH_COMPONENTS)
configure_package_config_file(cmake/smeltConfig.cmake.in ${CMAKE_BINARY_DIR}/smeltConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/smeltConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/smeltConfig.cmake ${CMAKE_BINARY_DIR}/smeltConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT plain)
