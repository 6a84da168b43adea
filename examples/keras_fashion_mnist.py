# SPDX-License-Identifier: Apache-2.0
"""Trains a wide residual network on Fashion-MNIST with Keras, on any number of ranks:

horovodrun -np 4 python3 examples/keras_fashion_mnist.py --epochs 1 --batch-size 512

The data is the Debian package dataset-fashion-mnist. Without horovodrun it is a run of one rank,
as in: CUDA_VISIBLE_DEVICES= python3 examples/keras_fashion_mnist.py
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before the import that reads it

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import horovod.keras as hvd

CLASSES = 10


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--log-dir", type=Path, help="rank 0 writes metrics and checkpoints here")
    parser.add_argument("--batch-size", type=int, default=128, help="of each rank")
    parser.add_argument("--val-batch-size", type=int, default=512, help="of each rank")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batches-per-epoch", type=int, help="of each rank; ends an epoch early")
    parser.add_argument("--base-lr", type=float, default=0.05, help="for one rank")
    parser.add_argument("--warmup-epochs", type=int, default=1, help="to reach the scaled rate")
    parser.add_argument("--wd", type=float, default=0.0005, help="weight decay")
    parser.add_argument("--target-accuracy", type=float, help="stop early at this accuracy")
    parser.add_argument("--patience", type=int, default=2, help="epochs to hold it for")
    parser.add_argument("--depth", type=int, default=10, help="of the network: 6 n + 4")
    parser.add_argument("--width", type=int, default=2, help="of the network: channels / 8")
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    if args.depth < 10 or args.depth % 6 != 4:
        parser.error(f"--depth {args.depth}: it must be 10, 16, 22, ...")
    return args


def read_idx(path: Path) -> np.ndarray:
    """A file of the IDX format: two zeros, the type (8: bytes), the dimensions, their sizes."""
    if not path.is_file():
        sys.exit(f"{path} is missing: apt-get install dataset-fashion-mnist, or use --data-dir")
    data = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def read_part(folder: Path, split: str, rank: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Every size-th image and label, from the rank-th: the ranks' parts are equal and disjoint."""
    images = read_idx(folder / f"{split}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{split}-labels-idx1-ubyte.gz")
    count = len(images) // size * size
    return images[rank:count:size, :, :, None], labels[rank:count:size].astype(np.int32)


def augment(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    padded = tf.image.resize_with_crop_or_pad(image, 32, 32)
    return tf.image.random_flip_left_right(tf.image.random_crop(padded, (28, 28, 1))), label


def training_data(
    part: tuple[np.ndarray, np.ndarray], batch_size: int, seed: int
) -> tf.data.Dataset:
    """Endless, so that every rank takes the same number of steps."""
    data = tf.data.Dataset.from_tensor_slices(part)
    data = data.shuffle(len(part[0]), seed=seed).repeat()
    data = data.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    return data.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def wide_resnet(depth: int, width: int, wd: float) -> keras.Model:
    """A wide residual network (Zagoruyko and Komodakis 2016) with half of its usual channels."""
    decay = keras.regularizers.L2(wd)

    def convolution(x: Any, channels: int, size: int, stride: int) -> Any:
        return layers.Conv2D(
            channels,
            size,
            stride,
            padding="same",
            use_bias=False,
            kernel_initializer="he_normal",
            kernel_regularizer=decay,
        )(x)

    def activation(x: Any) -> Any:
        return layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))

    def block(x: Any, channels: int, stride: int) -> Any:
        y = activation(x)
        shortcut = convolution(y, channels, 1, stride) if x.shape[-1] != channels else x
        y = convolution(y, channels, 3, stride)
        y = convolution(activation(y), channels, 3, 1)
        return layers.Add()([shortcut, y])

    inputs = keras.Input((28, 28, 1), dtype="uint8")
    x = layers.Rescaling(1 / (255 * 0.353), offset=-0.286 / 0.353)(inputs)
    x = convolution(x, 8, 3, 1)
    for channels, stride in ((8 * width, 1), (16 * width, 2), (32 * width, 2)):
        for number in range((depth - 4) // 6):
            x = block(x, channels, stride if number == 0 else 1)
    x = layers.GlobalAveragePooling2D()(activation(x))
    return keras.Model(inputs, layers.Dense(CLASSES, kernel_regularizer=decay)(x))


class Throughput(keras.callbacks.Callback):
    """Prints images per second of all ranks, and the time since training began."""

    def __init__(self, images_per_epoch: int) -> None:
        super().__init__()
        self.images_per_epoch = images_per_epoch
        self.begin = 0.0
        self.epoch_seconds = 0.0
        self.seconds = 0.0

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.begin = time.perf_counter()

    def on_test_begin(self, logs: dict[str, float] | None = None) -> None:
        self._end_of_training()  # what follows in this epoch is validation

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        print(f"Images/sec: {self.images_per_epoch / self.epoch_seconds:.1f}")
        print(f"Cumulative training time after epoch {epoch + 1}: {self.seconds:.2f}", flush=True)

    def _end_of_training(self) -> None:
        self.epoch_seconds = time.perf_counter() - self.begin
        self.seconds += self.epoch_seconds


class StopAtAccuracy(keras.callbacks.Callback):
    """Ends training when the validation accuracy has held the target for `patience` epochs.

    It follows MetricAverageCallback, so that it sees the same number on every rank.
    """

    def __init__(self, target: float, patience: int, is_first: bool) -> None:
        super().__init__()
        self.target = target
        self.patience = patience
        self.is_first = is_first
        self.held = 0

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        accuracy = (logs or {})["val_accuracy"]
        self.held = self.held + 1 if accuracy >= self.target else 0
        if self.held >= self.patience:
            self.model.stop_training = True
            if self.is_first:
                print(f"Early stopping after epoch {epoch + 1}", flush=True)


def make_callbacks(args: argparse.Namespace, images_per_epoch: int) -> list[Any]:
    callbacks: list[Any] = [
        # Horovod: all ranks start from the same weights.
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        # Horovod: metrics are averaged before any other callback looks at them.
        hvd.callbacks.MetricAverageCallback(),
    ]
    # Horovod: the scaled rate is reached gradually.
    if args.warmup_epochs > 0:
        callbacks.append(hvd.callbacks.LearningRateWarmupCallback(warmup_epochs=args.warmup_epochs))
    if args.target_accuracy is not None:
        callbacks.append(StopAtAccuracy(args.target_accuracy, args.patience, hvd.rank() == 0))

    # Horovod: one rank speaks, and writes checkpoints.
    if hvd.rank() == 0:
        callbacks.append(Throughput(images_per_epoch))
        if args.log_dir is not None:
            args.log_dir.mkdir(parents=True, exist_ok=True)
            callbacks.append(keras.callbacks.CSVLogger(args.log_dir / "metrics.csv"))
            callbacks.append(keras.callbacks.ModelCheckpoint(args.log_dir / "checkpoint.keras"))
    return callbacks


def main() -> None:
    args = parse_arguments()

    # Horovod: join the other ranks.
    hvd.init()

    # Horovod: a GPU belongs to the rank of this host with its number.
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")

    keras.utils.set_random_seed(args.seed + hvd.rank())
    train = read_part(args.data_dir, "train", hvd.rank(), hvd.size())
    test = read_part(args.data_dir, "t10k", hvd.rank(), hvd.size())

    # Horovod: an epoch is shared, so each rank takes its part of the steps.
    steps = args.batches_per_epoch or max(1, len(train[0]) // args.batch_size)

    # Horovod: a step sees the images of all ranks, so the rate grows with them; the optimizer
    # averages the gradients over the ranks.
    optimizer = keras.optimizers.SGD(args.base_lr * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer)

    model = wide_resnet(args.depth, args.width, args.wd)
    model.compile(
        optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        training_data(train, args.batch_size, args.seed),
        steps_per_epoch=steps,
        epochs=args.epochs,
        callbacks=make_callbacks(args, steps * args.batch_size * hvd.size()),
        validation_data=test,
        validation_batch_size=args.val_batch_size,
        shuffle=False,  # the data is shuffled already
        verbose=2 if hvd.rank() == 0 else 0,
    )

    # Horovod: every rank tests its part.
    results = model.evaluate(*test, batch_size=args.val_batch_size, verbose=0)
    loss, accuracy = hvd.allreduce(np.array(results), name="test")
    if hvd.rank() == 0:
        print(f"Test loss: {loss:.4f}")
        print(f"Test accuracy: {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
