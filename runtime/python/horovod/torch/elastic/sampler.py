# SPDX-License-Identifier: Apache-2.0
"""A sampler that goes on in the middle of an epoch, also with another number of ranks."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sized
from typing import Any

import torch

from horovod.common.basics import basics


class ElasticSampler(torch.utils.data.Sampler):
    """Gives each rank its share of the samples that this epoch has not seen yet.

    The training loop calls `record_batch` after each batch and `set_epoch` after each epoch. All
    ranks get the same number of samples; the first ones come twice where they do not come out even.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0  # samples of this epoch that the ranks together have seen
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch, with an order of its own."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Every rank has seen a batch of this size."""
        self.processed_num += batch_size * self.num_replicas

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def reset(self) -> None:
        """Shares out what is left among the ranks that there are now."""
        self.num_replicas = basics.size()
        self.rank = basics.rank()
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices = indices[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        repeated = itertools.islice(itertools.cycle(self.remaining_indices), self.total_size)
        return itertools.islice(repeated, self.rank, None, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples
