"""Installs the ROS-free part with pip; all metadata is in pyproject.toml. ROS builds go through CMakeLists.txt."""
from setuptools import setup

setup()
