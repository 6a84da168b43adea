#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs jobs over 16 simulated hosts with one random fault in each. Needs root.
# usage: scripts/hosts.sh BUILD_FOLDER [ROUNDS [FIRST_SEED]]      100 from seed 1
set -euo pipefail
cd "$(dirname "$0")/.."

build=$(realpath "${1:?"usage: $0 BUILD_FOLDER [ROUNDS [FIRST_SEED]]"}")
HVD_BIN="$build/bin" HVD_HOST_ROUNDS=${2:-100} HVD_HOST_SEED=${3:-1} \
    exec python3 -m pytest tests/e2e/hosts/test_hosts_rounds.py
