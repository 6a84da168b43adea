# SPDX-License-Identifier: Apache-2.0
"""The functions and constants of the world, which all front ends have under the same names."""

from __future__ import annotations

from horovod.common.basics import Adasum, Average, Max, Min, Product, Sum, basics
from horovod.common.local_first import local_first

__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "Product",
    "Sum",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_first",
    "local_rank",
    "local_size",
    "metrics",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]

ccl_built = basics.ccl_built
cross_rank = basics.cross_rank
cross_size = basics.cross_size
cuda_built = basics.cuda_built
ddl_built = basics.ddl_built
gloo_built = basics.gloo_built
gloo_enabled = basics.gloo_enabled
init = basics.init
is_homogeneous = basics.is_homogeneous
is_initialized = basics.is_initialized
local_rank = basics.local_rank
local_size = basics.local_size
metrics = basics.metrics
mpi_built = basics.mpi_built
mpi_enabled = basics.mpi_enabled
mpi_threads_supported = basics.mpi_threads_supported
nccl_built = basics.nccl_built
rank = basics.rank
rocm_built = basics.rocm_built
shutdown = basics.shutdown
size = basics.size
start_timeline = basics.start_timeline
stop_timeline = basics.stop_timeline
