#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Set-up that quickstart.sh and test.sh share: system packages, .venv with the frameworks and what
# building for GPUs needs, a release build, and its installation into .venv. Each step is skipped when its inputs have not changed.
#   scripts/prepare.sh [TARGET]    TARGET of the build: product (the default) or all, with the tests
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-product}

say() { echo "prepare: $*"; }
seconds() { printf '%d s' $((SECONDS - $1)); }

scripts/setup_debian_12.sh

# The stamp holds what .venv was made from; it is written last, so half a set-up starts again.
stamp=.venv/horovod-setup.sha256
python=$(python3 -c 'import sys; print(sys.base_prefix, sys.version)')
# Keras 2 asks for a distribution called tensorflow; tensorflow-cpu is the same without a GPU.
keras2=tf_keras==2.21.0
wanted=$({ echo "$python $keras2" && cat scripts/requirements.txt; } | sha256sum)
if [[ -x .venv/bin/python && -f $stamp && $(<"$stamp") == "$wanted" ]]; then
    say ".venv is up to date"
else
    begin=$SECONDS
    say "making .venv and installing the frameworks of scripts/requirements.txt (some minutes)"
    python3 -m venv --clear .venv
    pip=(.venv/bin/python -m pip --disable-pip-version-check install --quiet)
    "${pip[@]}" -r scripts/requirements.txt
    "${pip[@]}" --no-deps "$keras2"
    echo "$wanted" >"$stamp"
    say ".venv made in $(seconds "$begin")"
fi

# Headers of CUDA and NCCL and the compiler of kernels, each with its own exact version.
gpu_stamp=.venv/gpu/horovod-setup.sha256
wanted=$(sha256sum <scripts/requirements_gpu.txt)
if [[ -f $gpu_stamp && $(<"$gpu_stamp") == "$wanted" ]]; then
    say ".venv/gpu is up to date"
else
    begin=$SECONDS
    rm -rf .venv/gpu
    .venv/bin/python -m pip --disable-pip-version-check install --quiet --no-deps \
        --target .venv/gpu -r scripts/requirements_gpu.txt
    echo "$wanted" >"$gpu_stamp"
    say ".venv/gpu made in $(seconds "$begin")"
fi

begin=$SECONDS
say "building build/release ($target)"
# ninja configures again by itself when a CMake file changes; presets and packages it does not know.
ninja=build/release/build.ninja
if [[ ! -f $ninja || CMakePresets.json -nt $ninja || $gpu_stamp -nt $ninja ]]; then
    cmake --preset release -DPython3_EXECUTABLE="$PWD/.venv/bin/python"
fi
cmake --build build/release --target "$target"
say "build/release is up to date after $(seconds "$begin")"

cmake --install build/release --prefix .venv >build/release/install.log
version=$(.venv/bin/horovodrun --version)
say "installed horovod $version into .venv"
