# Decides at every configuration whether vision_msgs has to be generated: sets generate_vision_msgs.
#
# What an earlier run of this very build installed does not count as an installed vision_msgs: it would otherwise no
# longer be built, and one that the system got since then would never be taken. The install manifest tells them apart.
set(generate_vision_msgs ON)
set(_own_folder "${CMAKE_INSTALL_PREFIX}/share/vision_msgs/cmake")
set(_own_manifest "${CMAKE_CURRENT_BINARY_DIR}/vision_msgs/install_manifest.txt")
set(_own_files "")
if(EXISTS "${_own_manifest}")
  file(STRINGS "${_own_manifest}" _own_files)
endif()
list(FIND _own_files "${_own_folder}/vision_msgsConfig.cmake" _own_config)

set(_ignored ${CMAKE_IGNORE_PATH})
if(NOT _own_config EQUAL -1)
  list(APPEND CMAKE_IGNORE_PATH "${_own_folder}")
endif()
unset(vision_msgs_DIR CACHE)
find_package(vision_msgs QUIET)
set(CMAKE_IGNORE_PATH ${_ignored})

if(vision_msgs_FOUND)
  set(generate_vision_msgs OFF)
  message(STATUS "vision_msgs: the installed one is used, ${vision_msgs_DIR}")
  if(NOT _own_config EQUAL -1 AND EXISTS "${_own_folder}")
    message(WARNING "An earlier build generated vision_msgs into ${CMAKE_INSTALL_PREFIX}, where it hides the "
      "installed one: remove the build and install folders of this package and build again")
  endif()
else()
  message(STATUS "vision_msgs: not installed, its types are generated from third_party/vision_msgs")
endif()
