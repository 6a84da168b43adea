# SPDX-License-Identifier: Apache-2.0
"""The program that run.py measures: trains one of two small networks on Fashion-MNIST with Keras.
All ranks together see every image once an epoch."""

from __future__ import annotations

import argparse
import gzip
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before the import that reads it

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import horovod.keras as hvd


def read_idx(path: Path) -> np.ndarray:
    """A file of the IDX format: two zeros, the type (8: bytes), the dimensions, their sizes."""
    if not path.is_file():
        sys.exit(f"{path} is missing: apt-get install dataset-fashion-mnist, or use --data-dir")
    data = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def mnist_network() -> keras.Model:
    """The network of many MNIST examples: two convolutions and a wide layer."""
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )


def small_cnn() -> keras.Model:
    """Three convolutions with few weights: less to compute, and less to exchange."""
    parts: list[layers.Layer] = [keras.Input((28, 28, 1))]
    for channels in (16, 32, 32):
        parts += [layers.Conv2D(channels, 3, padding="same", activation="relu")]
        parts += [layers.MaxPooling2D()]
    return keras.Sequential([*parts, layers.Flatten(), layers.Dense(10)])


NETWORKS = {"mnist": mnist_network, "cnn": small_cnn}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--images", type=int, default=12000, help="of all ranks")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=50, help="of each rank")
    parser.add_argument("--data-dir", type=Path, default="/usr/share/datasets/fashion-mnist")
    args = parser.parse_args()

    # One thread also where a rank has more CPUs, so that speed-ups compare like with like.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")
    images = read_idx(args.data_dir / "train-images-idx3-ubyte.gz")[: args.images]
    labels = read_idx(args.data_dir / "train-labels-idx1-ubyte.gz")[: args.images]
    # Equal parts, of which each rank takes its own.
    part = len(images) // hvd.size()
    own = slice(hvd.rank() * part, (hvd.rank() + 1) * part)
    x, y = images[own, :, :, None] / np.float32(255), labels[own].astype(np.int32)

    keras.utils.set_random_seed(1)
    model = NETWORKS[args.network]()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size()))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss=loss, metrics=["accuracy"])
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    verbose = 2 if hvd.rank() == 0 else 0
    model.fit(
        x, y, batch_size=args.batch_size, epochs=args.epochs, verbose=verbose, callbacks=[broadcast]
    )


if __name__ == "__main__":
    main()
