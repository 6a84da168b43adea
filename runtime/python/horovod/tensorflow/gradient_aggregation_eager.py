# SPDX-License-Identifier: Apache-2.0
"""LocalGradientAggregationHelperEager, in the original's place."""

from __future__ import annotations

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.gradient_aggregation import PassSums, Reduce, local_factor


class LocalGradientAggregationHelperEager(PassSums):
    """The original's class for eager code and tf.function: its counter is there from the start."""

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Reduce,
        sparse_as_dense: bool,
        average_aggregated_gradients: bool,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        super().__init__(backward_passes_per_step, allreduce_func, average_aggregated_gradients)
        self.sparse_as_dense = sparse_as_dense  # what is summed is dense in any case
        self.process_set = process_set
        self.scale_local_gradients = scale_local_gradients
        self._local_factor = local_factor(process_set, scale_local_gradients)
        self._make_counter()
