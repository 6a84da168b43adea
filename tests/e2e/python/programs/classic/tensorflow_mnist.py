# SPDX-License-Identifier: Apache-2.0
"""MNIST for TensorFlow 1: placeholders, layers, a hook, a monitored session."""

import sys
from distutils.version import LooseVersion

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd

if LooseVersion(tf.__version__) >= LooseVersion("1.4.0"):
    from tensorflow import keras
else:
    from tensorflow.contrib import keras

layers = tf.layers
tf.logging.set_verbosity(tf.logging.INFO)
steps, folder = int(sys.argv[1]), sys.argv[2]


def conv_model(feature, target, mode):
    target = tf.one_hot(tf.cast(target, tf.int32), 10, 1, 0)
    feature = tf.reshape(feature, [-1, 28, 28, 1])
    with tf.variable_scope("conv_layer1"):
        h_conv1 = layers.conv2d(
            feature, 8, kernel_size=[5, 5], activation=tf.nn.relu, padding="SAME"
        )
        h_pool1 = tf.nn.max_pool(h_conv1, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    h_flat = tf.reshape(h_pool1, [-1, 14 * 14 * 8])
    h_fc = layers.dropout(
        layers.dense(h_flat, 32, activation=tf.nn.relu),
        rate=0.5,
        training=mode == tf.estimator.ModeKeys.TRAIN,
    )
    logits = layers.dense(h_fc, 10, activation=None)
    loss = tf.losses.softmax_cross_entropy(target, logits)
    return tf.argmax(logits, 1), loss


def batches(x, y, batch_size):
    while True:
        p = np.random.permutation(len(x))
        for index in range(0, len(x) - batch_size + 1, batch_size):
            chosen = p[index : index + batch_size]
            yield x[chosen], y[chosen]


def main(_):
    hvd.init()
    (x_train, y_train), _ = keras.datasets.mnist.load_data("MNIST-data-%d" % hvd.rank())
    x_train = np.reshape(x_train, (-1, 784)) / 255.0

    with tf.name_scope("input"):
        image = tf.placeholder(tf.float32, [None, 784], name="image")
        label = tf.placeholder(tf.float32, [None], name="label")
    predict, loss = conv_model(image, label, tf.estimator.ModeKeys.TRAIN)

    opt = tf.train.RMSPropOptimizer(0.001 * hvd.size())
    opt = hvd.DistributedOptimizer(opt)
    global_step = tf.train.get_or_create_global_step()
    train_op = opt.minimize(loss, global_step=global_step)
    with tf.control_dependencies([train_op]):  # read after the step, not beside it
        weights = [tf.reduce_sum(tf.abs(one.read_value())) for one in tf.trainable_variables()]
        summed = tf.add_n(weights)

    hooks = [
        hvd.BroadcastGlobalVariablesHook(0),
        tf.train.StopAtStepHook(last_step=steps // hvd.size()),
        tf.train.LoggingTensorHook(tensors={"step": global_step, "loss": loss}, every_n_iter=10),
    ]
    config = tf.ConfigProto()
    config.gpu_options.allow_growth = True
    config.gpu_options.visible_device_list = str(hvd.local_rank())
    checkpoint_dir = folder if hvd.rank() == 0 else None
    training_batches = batches(x_train, y_train, batch_size=50)
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=checkpoint_dir, hooks=hooks, config=config
    ) as mon_sess:
        values = []
        while not mon_sess.should_stop():
            image_, label_ = next(training_batches)
            feed = {image: image_, label: label_}
            _, value, total = mon_sess.run([train_op, loss, summed], feed_dict=feed)
            values.append(value)
    print("%d steps, loss from %.3f to %.3f" % (len(values), values[0], np.mean(values[-5:])))
    alike = hvd.allgather_object(float(total))
    print("weights are the same: {}".format(np.ptp(alike) < 1e-2))


if __name__ == "__main__":
    tf.app.run()
