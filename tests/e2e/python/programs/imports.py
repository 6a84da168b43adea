# SPDX-License-Identifier: Apache-2.0
"""Trains a step and checks that horovod itself imports no other communication library."""

from __future__ import annotations

import builtins
import sys

import torch

real_import = builtins.__import__


def checked_import(name, globals=None, *arguments, **keywords):
    importer = (globals or {}).get("__name__", "")
    if importer.split(".")[0] == "horovod":
        assert name.split(".")[0] != "mpi4py", importer
        assert not name.startswith("torch.distributed"), importer
    return real_import(name, globals, *arguments, **keywords)


builtins.__import__ = checked_import

import horovod.torch as hvd  # noqa: E402

hvd.init()
model = torch.nn.Linear(2, 2)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
hvd.broadcast_optimizer_state(optimizer, 0)
assert "mpi4py" not in sys.modules
