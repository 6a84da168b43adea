#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Looks up every function that is used of NCCL in real libraries from PyPI: the oldest that is taken
# and those given (nvidia-nccl-cu12==VERSION). Some 200 MB each, kept in build/nccl-versions.
# CI does it with the version of scripts/requirements_gpu.txt alone.
#   scripts/nccl_versions.sh [REQUIREMENT...]
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --build build/release --target unit_gpu
for requirement in nvidia-nccl-cu12==2.18.3 "$@"; do
    folder=build/nccl-versions/$requirement
    if [[ ! -f $folder/nvidia/nccl/lib/libnccl.so.2 ]]; then
        python3 -m pip --disable-pip-version-check install --quiet --no-deps --target "$folder" "$requirement"
    fi
    HVD_TEST_NCCL=$PWD/$folder/nvidia/nccl/lib/libnccl.so.2 \
        build/release/tests/unit_gpu "a real NCCL has every function of the table"
    echo "nccl_versions: $requirement has every function that is used"
done
