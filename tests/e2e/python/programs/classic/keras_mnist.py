# SPDX-License-Identifier: Apache-2.0
"""MNIST for Keras 2: augmentation, a warm-up of the rate, a plateau, checkpoints on rank 0."""

from __future__ import print_function

import sys

import keras
import tensorflow as tf
from keras import backend as K
from keras.datasets import mnist
from keras.layers import Conv2D, Dense, Dropout, Flatten, MaxPooling2D
from keras.models import Sequential
from keras.preprocessing.image import ImageDataGenerator

import horovod.keras as hvd
from horovod.tensorflow.compression import Compression

epochs, folder = int(sys.argv[1]), sys.argv[2]

hvd.init()

config = tf.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = str(hvd.local_rank())
K.set_session(tf.Session(config=config))

batch_size, num_classes = 50, 10
(x_train, y_train), (x_test, y_test) = mnist.load_data()
x_train = x_train.reshape(x_train.shape[0], 28, 28, 1).astype("float32") / 255
x_test = x_test.reshape(x_test.shape[0], 28, 28, 1).astype("float32") / 255
y_train = keras.utils.np_utils.to_categorical(y_train, num_classes)
y_test = keras.utils.np_utils.to_categorical(y_test, num_classes)

model = Sequential()
model.add(Conv2D(8, kernel_size=(3, 3), activation="relu", input_shape=(28, 28, 1)))
model.add(Conv2D(16, (3, 3), activation="relu"))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Dropout(0.25))
model.add(Flatten())
model.add(Dense(32, activation="relu"))
model.add(Dropout(0.5))
model.add(Dense(num_classes, activation="softmax"))

opt = keras.optimizers.Adadelta(lr=1.0 * hvd.size())
opt = hvd.DistributedOptimizer(opt, compression=Compression.fp16)
model.compile(loss=keras.losses.categorical_crossentropy, optimizer=opt, metrics=["accuracy"])

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LRWarmupCallback(warmup_epochs=2, verbose=1),
    hvd.callbacks.LearningRateScheduleCallback(start_epoch=2, multiplier=0.5),
    keras.callbacks.ReduceLROnPlateau(patience=3, verbose=1),
]
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint(folder + "/checkpoint-{epoch}.h5"))

train_gen = ImageDataGenerator(
    rotation_range=8,
    width_shift_range=0.08,
    shear_range=0.3,
    height_shift_range=0.08,
    zoom_range=0.08,
)
test_gen = ImageDataGenerator()
train_batches, test_batches = len(x_train) // batch_size, len(x_test) // batch_size

history = model.fit_generator(
    train_gen.flow(x_train, y_train, batch_size=batch_size),
    steps_per_epoch=train_batches // hvd.size(),
    callbacks=callbacks,
    epochs=epochs,
    verbose=2 if hvd.rank() == 0 else 0,
    validation_data=test_gen.flow(x_test, y_test, batch_size=batch_size),
    validation_steps=3 * test_batches // hvd.size(),
)
score = model.evaluate(x_test, y_test, verbose=0)
print("Test loss:", score[0])
print("Test accuracy:", score[1])
print("Learning rate:", K.get_value(model.optimizer.lr))
print("Validation accuracy:", history.history["val_acc"][-1])
