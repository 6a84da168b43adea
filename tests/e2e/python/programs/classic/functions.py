# SPDX-License-Identifier: Apache-2.0
"""Functions of a notebook that was written for Keras 2 and TensorFlow 1, in ranks."""

import horovod
import horovod.classic


def train(lr):
    import keras
    import numpy as np
    import tensorflow as tf
    from keras import backend as K

    import horovod.keras as hvd

    hvd.init()
    K.set_session(tf.Session(config=tf.ConfigProto()))
    model = keras.models.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(lr=lr))
    model.compile(optimizer, loss="mse")
    x = np.full((8, 2), 1 + hvd.rank(), np.float32)
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0, callbacks=[broadcast])
    return hvd.size(), [float(value) for value in np.ravel(model.get_weights()[0])]


first, second = horovod.run(horovod.classic.wrap(train), kwargs={"lr": 0.1}, num_proc=2)
print("trained:", first[0], first == second)

horovod.classic.enable()

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras.layers import Dense  # noqa: E402


def of_globals():
    with tf.Session() as session:
        total = session.run(tf.reduce_sum(tf.placeholder_with_default([1.0, 2.0], [2])))
    return (
        float(total),
        keras.__name__,
        Dense.__module__.split(".")[0],
        tf.train.AdamOptimizer,
    )


total, name, package, optimizer = horovod.run(horovod.classic.wrap(of_globals), num_proc=1)[0]
print("of globals:", total, name, package, optimizer is tf.train.AdamOptimizer)
