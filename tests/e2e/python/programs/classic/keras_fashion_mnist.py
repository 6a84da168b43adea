# SPDX-License-Identifier: Apache-2.0
"""A course's script for Keras 2 and TensorFlow 1, with all its steps: a wide residual network on
Fashion-MNIST, its weight decay set by its config, augmentation, callbacks of its own."""

from __future__ import print_function

import argparse
import os
import time

import keras
import numpy as np
import tensorflow as tf
from keras import backend as K
from keras.datasets import fashion_mnist
from keras.preprocessing.image import ImageDataGenerator
from keras_contrib.applications.wide_resnet import WideResidualNetwork

import horovod.keras as hvd

parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--log-dir", default="")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--val-batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--base-lr", type=float, default=0.01)
parser.add_argument("--warmup-epochs", type=float, default=1)
parser.add_argument("--wd", type=float, default=0.000005)
parser.add_argument("--target-accuracy", type=float, default=0.85)
parser.add_argument("--patience", type=int, default=2)
args = parser.parse_args()

hvd.init()

config = tf.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = str(hvd.local_rank())
K.set_session(tf.Session(config=config))

checkpoint_format = os.path.join(args.log_dir, "checkpoint-{epoch}.h5")
resume_from_epoch = 0
for try_epoch in range(args.epochs, 0, -1):
    if args.log_dir and os.path.exists(checkpoint_format.format(epoch=try_epoch)):
        resume_from_epoch = try_epoch
        break
resume_from_epoch = int(hvd.broadcast(resume_from_epoch, 0, name="resume_from_epoch"))

verbose = 1 if hvd.rank() == 0 else 0

img_rows, img_cols, num_classes = 28, 28, 10
(x_train, y_train), (x_test, y_test) = fashion_mnist.load_data()
if K.image_data_format() == "channels_first":
    input_shape = (1, img_rows, img_cols)
else:
    input_shape = (img_rows, img_cols, 1)
x_train = x_train.reshape((-1,) + input_shape)
x_test = x_test.reshape((-1,) + input_shape)
y_train = keras.utils.to_categorical(y_train, num_classes)
y_test = keras.utils.to_categorical(y_test, num_classes)

train_gen = ImageDataGenerator(
    featurewise_center=True,
    featurewise_std_normalization=True,
    horizontal_flip=True,
    width_shift_range=0.2,
    height_shift_range=0.2,
)
train_gen.fit(x_train)
train_iter = train_gen.flow(x_train, y_train, batch_size=args.batch_size)
test_gen = ImageDataGenerator(featurewise_center=True, featurewise_std_normalization=True)
test_gen.mean = train_gen.mean
test_gen.std = train_gen.std
test_iter = test_gen.flow(x_test, y_test, batch_size=args.val_batch_size)

if resume_from_epoch > 0 and hvd.rank() == 0:
    model = hvd.load_model(checkpoint_format.format(epoch=resume_from_epoch))
else:
    model = WideResidualNetwork(
        depth=16,
        width=1,
        weights=None,
        input_shape=input_shape,
        classes=num_classes,
        dropout_rate=0.01,
    )
    model_config = model.get_config()
    for layer, layer_config in zip(model.layers, model_config["layers"]):
        if hasattr(layer, "kernel_regularizer"):
            regularizer = keras.regularizers.l2(args.wd)
            layer_config["config"]["kernel_regularizer"] = {
                "class_name": regularizer.__class__.__name__,
                "config": regularizer.get_config(),
            }
        if type(layer) == keras.layers.BatchNormalization:  # noqa: E721
            layer_config["config"]["momentum"] = 0.9
            layer_config["config"]["epsilon"] = 1e-5
    model = keras.models.Model.from_config(model_config)
    norms = [one for one in model.layers if type(one) is keras.layers.BatchNormalization]
    assert norms and all(one.momentum == 0.9 for one in norms)

    opt = keras.optimizers.SGD(lr=args.base_lr * hvd.size(), momentum=0.9)
    opt = hvd.DistributedOptimizer(opt)
    model.compile(loss=keras.losses.categorical_crossentropy, optimizer=opt, metrics=["accuracy"])


class ImagesPerSec(keras.callbacks.Callback):
    def __init__(self, batch_size):
        self.images = batch_size * (len(train_iter) // hvd.size()) * hvd.size()

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch_start_time = time.time()

    def on_epoch_end(self, epoch, logs=None):
        images_per_sec = round(self.images / (time.time() - self.epoch_start_time), 2)
        if hvd.rank() == 0:
            print("Images/sec: {}".format(images_per_sec))


class TrainTime(keras.callbacks.Callback):
    def __init__(self):
        self.total = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.begin = time.time()

    def on_epoch_end(self, epoch, logs=None):
        self.total += time.time() - self.begin
        if hvd.rank() == 0:
            print("Cumulative training time after epoch {}: {}".format(epoch + 1, self.total))


class StopAtAccuracy(keras.callbacks.Callback):
    def __init__(self, target, patience):
        self.target, self.patience, self.held = target, patience, 0

    def on_epoch_end(self, epoch, logs=None):
        self.held = self.held + 1 if logs.get("val_acc") > self.target else 0
        if self.held >= self.patience:
            self.model.stop_training = True
            if hvd.rank() == 0:
                print("Early stopping after epoch {}".format(epoch + 1))


def lr_schedule(epoch):
    if epoch < 15:
        return args.base_lr * hvd.size()
    return 1e-1 * args.base_lr * hvd.size()


callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    keras.callbacks.LearningRateScheduler(lr_schedule),
    hvd.callbacks.LearningRateWarmupCallback(warmup_epochs=args.warmup_epochs, verbose=verbose),
    hvd.callbacks.LearningRateScheduleCallback(start_epoch=15, multiplier=1e-1),
    ImagesPerSec(args.batch_size),
    TrainTime(),
    StopAtAccuracy(args.target_accuracy, args.patience),
]
if hvd.rank() == 0 and args.log_dir:
    callbacks.append(keras.callbacks.ModelCheckpoint(checkpoint_format))
    callbacks.append(keras.callbacks.TensorBoard(args.log_dir))

model.fit_generator(
    train_iter,
    steps_per_epoch=len(train_iter) // hvd.size(),
    callbacks=callbacks,
    epochs=args.epochs,
    verbose=verbose,
    workers=4,
    initial_epoch=resume_from_epoch,
    validation_data=test_iter,
    validation_steps=3 * len(test_iter) // hvd.size(),
)

score = model.evaluate_generator(test_iter, len(test_iter), workers=4)
if verbose:
    print("Test loss:", score[0])
    print("Test accuracy:", score[1])
weights = np.concatenate([one.ravel() for one in K.batch_get_value(model.trainable_weights)])
same = hvd.allgather_object(float(np.abs(weights).sum()))
print("weights are the same: {}".format(max(same) == min(same)))
