#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures on a machine with a GPU, one part at a time; each takes less than 90 s.
#   HVD_WHEEL=dist/horovod-....whl scripts/gpu_report.sh PART FOLDER
# HVD_TESTS is the folder of the build's test programs, of which the part abi needs abi_latency.
# The part start wants a host without a GPU, an installed horovod of the build HVD_BUILD, and
# HVD_WITHOUT_CUDA, a build with HVD_WITH_CUDA=OFF and HVD_WITH_NCCL=OFF.
# Figures are kept in FOLDER/rows.json, and all of them so far are written to FOLDER/gpu.md, which is
# committed as tests/bench/results/gpu.md. Needs no network. Exit code 77: no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: [HVD_WHEEL=FILE] scripts/gpu_report.sh abi|abi2|latency|host|training|sharing|start|all FOLDER"
part=${1:?$usage}
folder=${2:?$usage}
python=${HVD_PYTHON:-python3}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

if [[ $part == start ]]; then
    other=${HVD_WITHOUT_CUDA:?names a build without CUDA}
    "$python" tests/bench/gpu/start.py "${HVD_BUILD:-build/release}/lib/libhorovod.so" \
        "$other/lib/libhorovod.so" | tee "$folder/start.log"
    exec "$python" tests/bench/gpu/report.py start "$folder"
fi

# shellcheck source=tests/gpu/install.sh
source tests/gpu/install.sh

measure() { # PART RANKS
    local flags=()
    (($2 == 1)) || flags=(--share-gpus --env HOROVOD_GPU_OPERATIONS=host)
    # With HOROVOD_ELASTIC=1 the optimizer of a single rank takes part in everything, too.
    HOROVOD_ELASTIC=$(($2 == 1)) timeout 85 "$hvd_bin/horovodrun" -np "$2" "${flags[@]}" \
        "$python" tests/bench/gpu/measure.py "$1" 2>&1 | tee "$folder/$1.log"
}

parts=("$part")
[[ $part != all ]] || parts=(abi abi2 latency host training sharing)
failed=0
for one in "${parts[@]}"; do
    case $one in
    abi)
        {
            "$python" tests/bench/gpu/c_abi.py
            "${HVD_TESTS:-build/release/tests}/abi_latency"
        } 2>&1 | tee "$folder/abi.log" || failed=1
        ;;
    abi2)
        HOROVOD_GPU_OPERATIONS=host timeout 85 "$hvd_bin/horovodrun" -np 2 --share-gpus "$python" \
            tests/bench/gpu/c_abi.py --check-only 2>&1 | tee "$folder/abi2.log" || failed=1
        ;;
    latency | host | training) measure "$one" 1 || failed=1 ;;
    sharing) measure "$one" 2 || failed=1 ;;
    *)
        echo "$usage" >&2
        exit 2
        ;;
    esac
    "$python" tests/bench/gpu/report.py "$one" "$folder" || failed=1
done
exit $failed
