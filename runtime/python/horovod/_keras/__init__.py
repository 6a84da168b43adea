# SPDX-License-Identifier: Apache-2.0
"""What horovod.keras and horovod.tensorflow.keras share.

Both work on the Keras that the program uses (`chosen`): Keras 3 on TensorFlow or PyTorch, or
tf_keras. `on_tensorflow` and `on_torch` have the same functions for tensors of either framework.
Wrapping an optimizer goes by the optimizer's own class, so either Keras is served.
"""
