# SPDX-License-Identifier: Apache-2.0
"""Ranks die one after the other, as the command line says: `RANK:CODE ...`, each by its number in
the world that there is then; the others form a smaller world each time and go on. After `late` the
last of them does not."""

from __future__ import annotations

import os
import sys
import time

import torch

import horovod.torch as hvd

HOW_LONG = 3  # allreduces in each world


def sums() -> None:
    for turn in range(HOW_LONG):
        own = torch.tensor([float(hvd.rank()), 1.0])
        total = hvd.allreduce(own, op=hvd.Sum, name=f"turn{turn}")
        assert total.tolist() == [sum(range(hvd.size())), hvd.size()], total


def place() -> str:
    return f"{hvd.rank()} of {hvd.size()}, local {hvd.local_rank()} of {hvd.local_size()}"


def main() -> None:
    hvd.init()
    print(place(), flush=True)
    for death in sys.argv[1:]:
        if death == "late":
            break
        rank, code = map(int, death.split(":"))
        sums()
        if hvd.rank() == rank:
            os._exit(code)
        try:
            while True:
                sums()
        except hvd.HorovodInternalError as error:
            print(f"lost: {error}", flush=True)
        if "late" in sys.argv and hvd.rank() == hvd.size() - 1:
            time.sleep(8)
            return
        hvd.shutdown()
        hvd.init()
        print(place(), flush=True)
    sums()
    print("done", flush=True)


if __name__ == "__main__":
    main()
