#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the supervisor over many simulated jobs with random faults.
# usage: scripts/simulate.sh BUILD_FOLDER [SCHEDULES [FIRST_SEED]]      10,000 from seed 1
set -euo pipefail

build=${1:?"usage: $0 BUILD_FOLDER [SCHEDULES [FIRST_SEED]]"}
HVD_SIM_SCHEDULES=${2:-10000} HVD_SIM_SEED=${3:-1} \
    exec "$build/tests/sim_launcher" "random faults leave*"
