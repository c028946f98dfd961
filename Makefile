# Plain Python, no ROS install needed (Linux, x86-64):
#   make demo                      everything set up, a drive played through the running nodes, a report in out/demo
#   make demo ARGS="--source DIR"  the same on other input; `make demo ARGS=--help` lists the choices
#   make test                      the whole test suite; ARGS="test/decision -k frontier" for some of it
#   make benchmarks                every benchmark, one after the other; ARGS="--list" says what there is
#   make fuzz ARGS="--minutes 90"  damaged files for every reader, chosen by coverage; goes on where it stopped
#   make gpu                       every test and benchmark that needs a GPU, into out/gpu; ARGS="--list" says what
#   make setup                     only the environment, in .venv, with PyTorch; nothing is installed on the system
#   make docs                      the documents as a site, in out/docs
#   make parameters                writes config/NODE.yaml from the nodes' declarations
#   make doctor                    what this machine has and what is missing
#   make clean                     removes the environment and all that was built
# Variables: PYTHON=python3.12, WORKERS=3 (tests).
#
# With a ROS 2 install, use colcon instead, in a workspace with this repository in src/:
#   rosdep install --from-paths src --ignore-src && colcon build --symlink-install
#   . install/setup.bash && ros2 launch deadline_perception perception.launch.py
# A ROS install that is sourced does not disturb the targets below: they use ROS from PyPI in their own environment.
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

export ROS_DISTRO_WHEELS ?= jazzy
export VENV ?= $(if $(filter jazzy,$(ROS_DISTRO_WHEELS)),.venv,.venv-$(ROS_DISTRO_WHEELS))
export PYTHON
# What another environment of this kind leaves to the programs that it starts.
unexport _ROS_WHEELS_BOOTSTRAP_COMPLETE
unexport AMENT_PREFIX_PATH CMAKE_PREFIX_PATH COLCON_PREFIX_PATH PYTHONPATH ROS_DISTRO RMW_IMPLEMENTATION
# Nodes, commands and tests are processes that import torch: without bytecode each compiles it anew, a second or two.
unexport PYTHONDONTWRITEBYTECODE
ifdef AMENT_PREFIX_PATH
unexport LD_LIBRARY_PATH
endif

STAMPS := $(VENV)/stamps
INTERFACE_SOURCES := $(wildcard msg/*.msg third_party/vision_msgs/*.* third_party/vision_msgs/msg/*.msg) \
    CMakeLists.txt package.xml cmake/find_interface_package.cmake cmake/find_vision_msgs.cmake \
    cmake/executable.py.in cmake/source_tree.pth.in
ARGS ?=
# One worker more than the two cores of a small machine: tests of nodes wait a third of their time.
WORKERS ?= 3

.PHONY: help setup demo test fuzz benchmarks gpu parameters docs doctor clean FORCE

help:
	@sed -n 's/^#   \(make .*\)/  \1/p; s/^# \(Variables: .*\)/  \1/p' $(firstword $(MAKEFILE_LIST))

setup: $(STAMPS)/develop

demo: $(STAMPS)/interfaces
	@$(VENV)/bin/deadline-perception demo $(ARGS)

test: setup
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/mypy --no-error-summary
	@$(VENV)/bin/lint-imports --no-logo >/dev/null || $(VENV)/bin/lint-imports
	@$(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0 $(ARGS)

fuzz: setup
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'atheris>=3,<4'
	@$(VENV)/bin/python test/fuzz/run.py $(ARGS)

gpu: setup
	@$(VENV)/bin/python benchmarks/all.py --gpu $(ARGS)

benchmarks: setup
	@$(VENV)/bin/python benchmarks/all.py $(ARGS)

parameters: $(STAMPS)/interfaces
	@$(VENV)/bin/python -m deadline_perception.nodes parameter_document config

docs: setup
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'mkdocs-material>=9.5,<10' 'mkdocstrings[python]>=0.26,<2'
	@$(VENV)/bin/mkdocs build --quiet --strict --site-dir out/docs && echo 'wrote out/docs/index.html'

doctor: $(STAMPS)/interfaces
	@$(VENV)/bin/deadline-perception doctor $(ARGS)

clean:
	rm -rf .venv .venv-* build install log out .hypothesis .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMPS)/environment:
	@cmake/setup.sh environment
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/packages: $(STAMPS)/environment cmake/lock.txt
	@cmake/setup.sh packages
	@touch $@

$(STAMPS)/develop: $(STAMPS)/interfaces cmake/lock-develop.txt
	@cmake/setup.sh develop
	@touch $@

$(STAMPS)/interfaces: $(STAMPS)/packages $(STAMPS)/node_names $(INTERFACE_SOURCES)
	@cmake/setup.sh interfaces
	@touch $@

# Changes only when a node is added or removed, so that its executable is made.
$(STAMPS)/node_names: FORCE | $(STAMPS)/environment
	@ls deadline_perception/nodes/*.py | cmp -s - $@ || ls deadline_perception/nodes/*.py > $@
