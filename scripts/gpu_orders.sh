#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collectives of GPUs in random orders, on the stand-ins for the CUDA driver and NCCL:
# scripts/gpu_orders.sh [SECONDS [SEED]], 600 seconds of a new seed without them. Needs
# build/release.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
seed=${2:-$RANDOM}
echo "gpu_orders: $seconds seconds, seed $seed"
# At 2, 3, 4 and 7 ranks with one GPU each, and at 2, 3 and 4 with two.
export HVD_TEST_SECONDS=$(((seconds + 6) / 7)) HVD_TEST_SEED=$seed
exec build/release/tests/integration_abi "NCCL moves what each rank submits*,sums on two GPUs of each rank*"
