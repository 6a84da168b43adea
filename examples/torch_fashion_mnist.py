# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolutional network on Fashion-MNIST with PyTorch, on any number of ranks:

horovodrun -np 4 python3 examples/torch_fashion_mnist.py --epochs 1 --batch-size 64

The data is the Debian package dataset-fashion-mnist. Without horovodrun it is a run of one rank.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as functional
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import horovod.torch as hvd


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="of each rank")
    parser.add_argument("--val-batch-size", type=int, default=512, help="of each rank")
    parser.add_argument("--base-lr", type=float, default=0.02, help="for one rank")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--wd", type=float, default=0.00005, help="weight decay")
    parser.add_argument("--batches-per-epoch", type=int, help="stop an epoch early")
    parser.add_argument("--batches-per-allreduce", type=int, default=1)
    parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel as float16")
    parser.add_argument("--workers", type=int, default=0, help="data loader processes of each rank")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--checkpoint", type=Path, help="written by rank 0 after every epoch")
    return parser.parse_args()


def choose_device(name: str) -> torch.device:
    """Horovod: each rank has a GPU of its own, that of its local rank; "auto": if there is one."""
    gpus = torch.cuda.device_count()
    if name == "cuda" and gpus <= hvd.local_rank():
        sys.exit(f"local rank {hvd.local_rank()}: there are {gpus} GPUs; use --device auto or cpu")
    if name == "cpu" or gpus <= hvd.local_rank():
        return torch.device("cpu")
    torch.cuda.set_device(hvd.local_rank())
    return torch.device("cuda", hvd.local_rank())


def read_idx(path: Path) -> torch.Tensor:
    """A file of the IDX format: two zeros, the type (8: bytes), the dimensions, their sizes."""
    if not path.is_file():
        sys.exit(f"{path} is missing: apt-get install dataset-fashion-mnist, or use --data-dir")
    data = gzip.decompress(path.read_bytes())
    dimensions = data[3]
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions)]
    body = bytearray(data[4 + 4 * dimensions :])
    return torch.frombuffer(body, dtype=torch.uint8).reshape(shape)


def read_split(folder: Path, split: str) -> TensorDataset:
    images = read_idx(folder / f"{split}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{split}-labels-idx1-ubyte.gz")
    return TensorDataset(images.unsqueeze(1), labels.long())


class Net(torch.nn.Module):
    """Two convolutions and two dense layers: an epoch takes seconds on a CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, kernel_size=5, padding=2)
        self.conv2 = torch.nn.Conv2d(16, 32, kernel_size=5, padding=2)
        self.dense1 = torch.nn.Linear(32 * 7 * 7, 128)
        self.dense2 = torch.nn.Linear(128, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = images.float().div(255.0).sub(0.286).div(0.353)
        x = functional.max_pool2d(self.conv1(x).relu(), 2)
        x = functional.max_pool2d(self.conv2(x).relu(), 2)
        x = self.dense1(x.flatten(1)).relu()
        return self.dense2(x)


def make_loader(dataset: TensorDataset, batch_size: int, workers: int, train: bool) -> DataLoader:
    """Every rank reads its own part of the data; in another order every epoch for training."""
    sampler: DistributedSampler = DistributedSampler(
        dataset, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=train
    )
    return DataLoader(dataset, batch_size, sampler=sampler, num_workers=workers)


def train_epoch(
    model: Net, optimizer: torch.optim.Optimizer, loader: DataLoader, args: argparse.Namespace
) -> tuple[float, int]:
    """Returns the mean loss of this rank and the number of its images."""
    model.train()
    device = next(model.parameters()).device
    losses = []
    count = 0
    optimizer.zero_grad()
    for batch, (images, labels) in enumerate(loader):
        if args.batches_per_epoch is not None and batch >= args.batches_per_epoch:
            break
        loss = functional.cross_entropy(model(images.to(device)), labels.to(device))
        (loss / args.batches_per_allreduce).backward()
        if (batch + 1) % args.batches_per_allreduce == 0:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.detach())
        count += len(images)
    if args.batches_per_allreduce > 1:  # what is left of the last step is dropped on all ranks
        optimizer.synchronize()
        optimizer.zero_grad()
    return float(torch.stack(losses).mean()), count


@torch.no_grad()
def evaluate(model: Net, loader: DataLoader) -> tuple[float, float]:
    """Loss and accuracy over the test images of all ranks."""
    model.eval()
    device = next(model.parameters()).device
    totals = torch.zeros(3, device=device)  # loss, right answers, images
    for images, labels in loader:
        labels = labels.to(device)
        output = model(images.to(device))
        totals[0] += functional.cross_entropy(output, labels, reduction="sum")
        totals[1] += (output.argmax(1) == labels).sum()
        totals[2] += len(images)
    loss, right, images = hvd.allreduce(totals, op=hvd.Sum, name="evaluation").tolist()
    return loss / images, right / images


def main() -> None:
    args = parse_arguments()

    # Horovod: join the other ranks.
    hvd.init()
    torch.manual_seed(args.seed)
    is_first = hvd.rank() == 0
    device = choose_device(args.device)

    train_loader = make_loader(
        read_split(args.data_dir, "train"), args.batch_size, args.workers, train=True
    )
    test_loader = make_loader(
        read_split(args.data_dir, "t10k"), args.val_batch_size, args.workers, train=False
    )

    # Horovod: a step sees the images of all ranks, so the rate grows with them.
    model = Net().to(device)
    optimizer: torch.optim.Optimizer = torch.optim.SGD(
        model.parameters(),
        lr=args.base_lr * hvd.size() * args.batches_per_allreduce,
        momentum=args.momentum,
        weight_decay=args.wd,
    )

    # Horovod: gradients are averaged over the ranks before each step.
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        backward_passes_per_step=args.batches_per_allreduce,
    )

    # Horovod: all ranks start from the same state.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    for epoch in range(args.epochs):
        train_loader.sampler.set_epoch(epoch)
        begin = time.perf_counter()
        loss, count = train_epoch(model, optimizer, train_loader, args)
        images = int(hvd.allreduce(torch.tensor(count), op=hvd.Sum, name="images"))
        seconds = time.perf_counter() - begin

        # Horovod: metrics are averaged over the ranks.
        loss = float(hvd.allreduce(torch.tensor(loss), name="loss"))
        test_loss, accuracy = evaluate(model, test_loader)

        # Horovod: one rank speaks, and writes checkpoints.
        if is_first:
            print(f"Epoch {epoch + 1}: loss {loss:.4f}, test accuracy {accuracy:.4f}")
            print(f"Images/sec: {images / seconds:.1f}", flush=True)
            if args.checkpoint is not None:
                torch.save(model.state_dict(), args.checkpoint)

    if is_first:
        print(f"Test loss: {test_loss:.4f}")
        print(f"Test accuracy: {accuracy:.4f}")


if __name__ == "__main__":
    main()
