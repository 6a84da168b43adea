#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests that need a GPU, one part at a time; each takes less than 90 s.
#   HVD_WHEEL=dist/horovod-....whl tests/gpu/run.sh PART FOLDER
# The wheel goes into FOLDER/site, beside the Python that has PyTorch with CUDA; the part's output is
# in FOLDER/PART.log, and the last line says how it ended. Needs no network. Exit code 77: no GPU.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage="usage: [HVD_WHEEL=FILE] tests/gpu/run.sh torch1|torch1host|torch2|torch4|cupy1|cupy2|memory|memcheck|racecheck|synccheck|all FOLDER"
part=${1:?$usage}
folder=${2:?$usage}
python=${HVD_PYTHON:-python3}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# shellcheck source=tests/gpu/install.sh
source tests/gpu/install.sh

ranks() { # NUMBER PROGRAM ARGUMENT...: where ranks share the GPU, tensors travel through the host
    local number=$1
    shift
    local flags=()
    ((number == 1)) || flags=(--share-gpus --env HOROVOD_GPU_OPERATIONS=host)
    timeout 85 "$hvd_bin/horovodrun" -np "$number" "${flags[@]}" "$python" "$@"
}

run_part() {
    case $1 in
    torch1) ranks 1 tests/gpu/programs/torch_front_end.py ;;
    torch1host) HOROVOD_GPU_OPERATIONS=host ranks 1 tests/gpu/programs/torch_front_end.py ;;
    torch2) ranks 2 tests/gpu/programs/torch_front_end.py ;;
    torch4) ranks 4 tests/gpu/programs/torch_front_end.py ;;
    cupy1) ranks 1 tests/gpu/programs/cupy_front_end.py ;;
    cupy2) ranks 2 tests/gpu/programs/cupy_front_end.py ;;
    memory) timeout 85 "$python" tests/gpu/memory.py "$hvd_bin/horovodrun" ;;
    memcheck | racecheck | synccheck)
        # NCCL asks for kernels that the GPU has not, which memcheck would report as errors.
        local flags=()
        [[ $1 != memcheck ]] || flags=(--report-api-errors no)
        timeout 85 compute-sanitizer --tool "$1" "${flags[@]}" --error-exitcode 9 \
            "$python" tests/gpu/programs/torch_front_end.py allreduce_in_every_form
        ;;
    *)
        echo "$usage" >&2
        exit 2
        ;;
    esac
}

parts=("$part")
[[ $part != all ]] || parts=(torch1 torch1host torch2 torch4 cupy1 cupy2 memory memcheck racecheck synccheck)
failed=0
for one in "${parts[@]}"; do
    code=0
    (run_part "$one") >"$folder/$one.log" 2>&1 || code=$?
    tail -n 25 "$folder/$one.log"
    echo "$one: exit code $code" | tee -a "$folder/$one.log"
    ((code == 0)) || failed=1
done
exit $failed
