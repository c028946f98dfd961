# find_package for a package of interfaces, mended where it was built on another machine.
#
# The interface packages on PyPI name the include directories of the Python that they were built with, and CMake
# refuses imported targets whose include directories do not exist. Those are dropped; on a ROS install nothing changes.
macro(find_interface_package package)
  find_package(${package} REQUIRED)
  foreach(_package IN ITEMS ${package} ${${package}_RECURSIVE_DEPENDENCIES})
    set(_target ${_package}::${_package}__rosidl_generator_py)
    if(TARGET ${_target})
      get_target_property(_directories ${_target} INTERFACE_INCLUDE_DIRECTORIES)
      set(_existing "")
      foreach(_directory IN LISTS _directories)
        if(EXISTS "${_directory}")
          list(APPEND _existing "${_directory}")
        endif()
      endforeach()
      set_target_properties(${_target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_existing}")
    endif()
  endforeach()
endmacro()
