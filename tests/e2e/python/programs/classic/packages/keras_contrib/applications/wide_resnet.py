# SPDX-License-Identifier: Apache-2.0
"""The one function that the script needs, with imports as packages of 2018 have them."""

from __future__ import print_function

import keras.backend as K
from keras.engine.topology import get_source_inputs
from keras.layers import Conv2D, Input
from keras.layers.core import Activation, Dense, Dropout
from keras.layers.merge import add
from keras.layers.normalization import BatchNormalization
from keras.layers.pooling import GlobalAveragePooling2D, MaxPooling2D
from keras.models import Model


def _activated(x):
    axis = 1 if K.image_dim_ordering() == "th" else -1
    return Activation("relu")(BatchNormalization(axis=axis)(x))


def _block(x, channels, dropout):
    shortcut = x
    if x._keras_shape[-1] != channels:
        shortcut = Conv2D(channels, (1, 1), padding="same")(x)
    y = _activated(Conv2D(channels, (3, 3), padding="same")(x))
    if dropout > 0.0:
        y = Dropout(dropout)(y)
    y = _activated(Conv2D(channels, (3, 3), padding="same")(y))
    return add([shortcut, y])


def WideResidualNetwork(
    depth=28, width=8, dropout_rate=0.0, weights="cifar10", input_shape=None, classes=10
):
    assert weights is None and (depth - 4) % 6 == 0
    inputs = Input(shape=input_shape)
    x = _activated(Conv2D(16, (3, 3), padding="same")(inputs))
    for group in range(3):
        if group > 0:
            x = MaxPooling2D((2, 2))(x)
        for _ in range((depth - 4) // 6):
            x = _block(x, 16 * width * 2**group, dropout_rate)
    x = Dense(classes, activation="softmax")(GlobalAveragePooling2D()(x))
    assert get_source_inputs(x) == [inputs]
    return Model(inputs, x, name="wide-resnet")
