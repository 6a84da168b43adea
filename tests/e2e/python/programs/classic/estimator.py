# SPDX-License-Identifier: Apache-2.0
"""Uses what nothing can stand for."""

import tensorflow as tf

print(tf.estimator.ModeKeys.TRAIN)
assert not hasattr(tf, "contrib")
try:
    import keras_contrib  # noqa: F401
except ImportError as error:
    print(error)
try:
    from tensorflow.contrib import slim  # noqa: F401
except ImportError as error:
    print(error)
try:
    from tensorflow import contrib  # noqa: F401
except ImportError as error:
    print(error)
try:
    from keras.utils import multi_gpu_model  # noqa: F401
except ImportError as error:
    print(error)
classifier = tf.estimator.Estimator(model_fn=None)
