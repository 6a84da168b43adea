#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and installs everything (see prepare.sh), then runs all tests but the benchmarks: ctest for
# C++, pytest for the installed programs and the Python front ends. The last line is
# `N passed, N failed, N skipped`; the exit code is not 0 when one failed.
# With CI=true a test may not skip for want of a package: see count_tests.py.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/prepare.sh all

results=$PWD/build/release/test-results
rm -rf "$results"
mkdir -p "$results"
export PATH="$PWD/.venv/bin:$PATH"

# Their verdicts come from the result files, where a crash of the runner shows as a missing file.
echo "test: ctest"
ctest --test-dir build/release -j 2 -LE bench --output-on-failure --no-tests=error \
    --test-output-size-passed 65536 --output-junit "$results/ctest.xml" </dev/null ||
    echo "test: ctest ended with $?"
echo "test: pytest"
timeout 2400 python -m pytest tests/e2e --junitxml="$results/pytest.xml" </dev/null ||
    echo "test: pytest ended with $?"

require=()
[[ ${CI-} != true ]] || require=(--require-all)
exec scripts/count_tests.py "${require[@]}" "$results/ctest.xml" "$results/pytest.xml"
