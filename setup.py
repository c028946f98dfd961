"""Lets `pip install -e .` set up the ROS-free part; all metadata is in pyproject.toml, ROS builds use CMakeLists.txt.

Editable only: message definitions, parameters and weights stay in the source tree and are found there.
"""
from setuptools import setup

setup()
