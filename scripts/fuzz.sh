#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzzers of tests/fuzz in build/fuzz and runs each for long; CI tries a fixed number of
# inputs. What fails is written to build/fuzz/tests/fuzz/found, with the command that shows it again.
#   scripts/fuzz.sh [SECONDS]    for each of them; 600 by default
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}

cmake --preset asan -B build/fuzz -DHVD_NO_SANITIZE=function,vptr \
    -DHVD_FUZZ_RUNS=-1 -DHVD_FUZZ_SECONDS="$seconds"
cmake --build build/fuzz --target fuzz_run -- -k 0
