# SPDX-License-Identifier: Apache-2.0
"""A script that knows nothing of Horovod: its world is in the variables of torchrun."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {value.item():.0f}", flush=True)
print(f"local rank {os.environ['LOCAL_RANK']} of {os.environ['LOCAL_WORLD_SIZE']}", flush=True)
dist.destroy_process_group()
