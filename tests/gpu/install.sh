# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that need a GPU. Puts the wheel HVD_WHEEL into $folder/site, unless HVD_BIN
# names the programs of a build; sets hvd_bin. Ends the script with 77 where there is no GPU.

# shellcheck disable=SC2154 # python and folder are the caller's
if [[ ${HVD_TEST_DEVICE:-cuda} != cpu ]] &&
    ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    echo "no GPU that PyTorch can use" >&2
    exit 77
fi
if [[ -n ${HVD_BIN-} ]]; then
    hvd_bin=$HVD_BIN
else
    wheel=${HVD_WHEEL:?names the wheel that scripts/wheel.sh has made}
    if [[ ! -f $folder/site/.done || $wheel -nt $folder/site/.done ]]; then
        rm -rf "$folder/site"
        "$python" -m venv --without-pip "$folder/site"
        # The packages of this Python, which may itself be that of a virtual environment.
        "$python" -c 'import sys; print(*[p for p in sys.path if "-packages" in p], sep="\n")' \
            >"$(echo "$folder"/site/lib/python*/site-packages)/outer.pth"
        "$python" -m pip --python "$folder/site/bin/python" install --quiet --no-index --no-deps \
            "$wheel"
        touch "$folder/site/.done"
    fi
    python=$folder/site/bin/python
    # shellcheck disable=SC2034
    hvd_bin=$folder/site/bin
fi
