# SPDX-License-Identifier: Apache-2.0
"""Runs scripts that were written for Keras 2 and TensorFlow 1, unchanged:

    horovodrun -np 4 python -m horovod.classic train.py --epochs 5

For that process tf_keras stands under the name keras, and tf.compat.v1 under the name tensorflow,
in graph mode. Rank 0 prints each name that something else stands for, once.

A notebook calls `horovod.classic.enable()` in its first cell. A function for ranks is wrapped:

    HorovodRunner(np=4).run(horovod.classic.wrap(train), learning_rate=0.1)
"""

from horovod.classic.process import enable, wrap

__all__ = ["enable", "wrap"]
