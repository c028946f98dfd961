# The tests of the source tree as ctests: one for each folder, and one for each file of nodes, which start processes and
# wait for them, so that no limit is near on a slow board. A single test that hangs ends after 300 s (pyproject.toml).
find_package(ament_cmake_pytest REQUIRED)
get_filename_component(test_root ${CMAKE_CURRENT_LIST_DIR}/../test ABSOLUTE)

function(add_test_files prefix)
  foreach(test_file IN LISTS ARGN)
    get_filename_component(test_name ${test_file} NAME_WE)
    ament_add_pytest_test(${prefix}${test_name} ${test_file} TIMEOUT 1200)
  endforeach()
endfunction()

file(GLOB test_folders LIST_DIRECTORIES true CONFIGURE_DEPENDS ${test_root}/* ${test_root}/../research/*)
foreach(folder IN LISTS test_folders)
  file(GLOB_RECURSE test_files CONFIGURE_DEPENDS ${folder}/test_*.py)
  get_filename_component(name ${folder} NAME)
  if(name STREQUAL "nodes")
    add_test_files(${name}_ ${test_files})
  elseif(test_files)
    ament_add_pytest_test(${name} ${folder} TIMEOUT 1800)
  endif()
endforeach()
file(GLOB test_files CONFIGURE_DEPENDS ${test_root}/test_*.py)
add_test_files("" ${test_files})
