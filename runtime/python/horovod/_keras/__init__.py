# SPDX-License-Identifier: Apache-2.0
"""What horovod.keras and horovod.tensorflow.keras share.

Both work on the Keras that TensorFlow uses: Keras 3, or tf_keras where TF_USE_LEGACY_KERAS=1 asks
for it. Wrapping an optimizer goes by the optimizer's own class, so either Keras is served.
"""

import horovod.tensorflow  # noqa: F401  (first: it says what is missing)
