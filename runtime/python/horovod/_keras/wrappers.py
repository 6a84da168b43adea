# SPDX-License-Identifier: Apache-2.0
"""The classes that are put in front of an optimizer's own, for each kind of optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from horovod._keras.chosen import framework
from horovod._keras.distribution import Distribution

as_it_is = framework().as_it_is

Gradient = Any


class DistributedBase:
    """What all wrapped optimizers have. `_hvd_distribution` is set on the class made for each."""

    _hvd_distribution: Distribution
    _hvd_aggregation: Any = None
    _hvd_reduced: tuple[Gradient, ...] | None = None

    @property
    def _agg_helper(self) -> Any:
        """The original's name for what sums several backward passes."""
        if self._hvd_aggregation is None:
            self._hvd_aggregation = self._hvd_distribution.make_aggregation()
        return self._hvd_aggregation

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays each rank's own. It is divided by the number of ranks
        unless the optimizer was made with scale_local_gradients=False."""
        self._hvd_distribution.reducer.register_local(var)

    def _hvd_reduce(
        self, gradients: Sequence[Gradient], variables: Sequence[Any]
    ) -> list[Gradient]:
        """The gradients to apply, of this pass or of all since the last step."""
        helper = self._agg_helper
        if helper is not None:
            return helper.compute_gradients(gradients, variables)
        return self._hvd_distribution.reducer.reduce(gradients, variables)

    @as_it_is
    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Gradient, Any]]:
        """The gradients of all ranks, as pairs with their variables. apply_gradients takes them as
        they are."""
        gradients, variables = self._hvd_distribution.framework.gradients_of(
            loss, var_list, grad_loss, tape
        )
        return self._hvd_remember(gradients, variables)

    def _hvd_remember(
        self, gradients: Sequence[Gradient], variables: Sequence[Any]
    ) -> list[tuple[Gradient, Any]]:
        reduced = self._hvd_reduce(gradients, variables)
        self._hvd_reduced = tuple(reduced)
        return list(zip(reduced, variables, strict=True))

    def _hvd_is_reduced(self, gradients: Sequence[Gradient]) -> bool:
        """Whether these very gradients came from _compute_gradients."""
        known, self._hvd_reduced = self._hvd_reduced, None
        if known is None or len(known) != len(gradients):
            return False
        return all(one is other for one, other in zip(known, gradients, strict=True))


class DistributedKeras3(DistributedBase):
    """For keras.optimizers.Optimizer of Keras 3."""

    @as_it_is
    def apply(self, grads: Sequence[Gradient], trainable_variables: Any = None) -> Any:
        parent = super()
        gradients = list(grads)
        if not gradients:
            return parent.apply(gradients, trainable_variables)  # type: ignore[misc]
        variables = (
            self._trainable_variables  # type: ignore[attr-defined]
            if trainable_variables is None
            else list(trainable_variables)
        )
        helper = self._agg_helper
        if helper is not None:
            self._hvd_distribution.framework.build(self, variables)
        if not self._hvd_is_reduced(gradients):
            gradients = self._hvd_reduce(gradients, variables)
        if helper is None:
            return parent.apply(gradients, trainable_variables)  # type: ignore[misc]
        pairs = list(zip(gradients, variables, strict=True))
        helper.apply_gradients(lambda: parent.apply(gradients, trainable_variables), self, pairs)  # type: ignore[misc]
        return None


class AgreeingLossScale:
    """For LossScaleOptimizer of Keras 3, around a distributed optimizer: the ranks agree on whether
    the gradients are finite, since the decision to skip the step is taken before they are reduced.
    """

    _hvd_distribution: Distribution

    @as_it_is
    def check_finite(self, grads: Sequence[Gradient]) -> Any:
        return self._hvd_distribution.on_every_rank(super().check_finite(grads))  # type: ignore[misc]

    def register_local_var(self, var: Any) -> None:
        """See the inner optimizer."""
        self._hvd_distribution.reducer.register_local(var)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        from horovod._keras.optimizer import distribute_in_place, is_distributed

        made = super().from_config(config, custom_objects=custom_objects)  # type: ignore[misc]
        if not is_distributed(made):
            distribute_in_place(made, cls._hvd_distribution)
        return made


class _TfKeras(DistributedBase):
    """For tf_keras. There the gradients are reduced before the loss scale optimizer looks at them:
    an infinity of one rank is in the sum of all."""

    def _hvd_aggregate(self, grads_and_vars: Any) -> list[tuple[Gradient, Any]]:
        """What stands in for tf_keras' own reduction over replicas."""
        gradients, variables = _unzip(grads_and_vars)
        if self._agg_helper is None:
            if not self._hvd_is_reduced(gradients):
                gradients = self._hvd_reduce(gradients, variables)
        elif self._hvd_distribution.reducer.settings.size > 1:
            gradients = self._hvd_poisoned(gradients)
        return list(zip(gradients, variables, strict=True))

    def _hvd_poisoned(self, gradients: list[Gradient]) -> list[Gradient]:
        """The gradients, the first made infinite where any is not finite on any rank: the ranks
        then decide alike whether to skip a pass that they do not reduce yet."""
        import tensorflow as tf

        present = [i for i, one in enumerate(gradients) if one is not None]
        if not present:
            return gradients
        values = [tf.convert_to_tensor(gradients[i]) for i in present]
        own = tf.reduce_all([tf.reduce_all(tf.math.is_finite(value)) for value in values])
        all_finite = self._hvd_distribution.on_every_rank(own)
        infinite = tf.constant(float("inf"), values[0].dtype)
        results = list(gradients)
        results[present[0]] = tf.where(all_finite, values[0], infinite)
        return results

    def _hvd_apply(
        self, apply: Callable[[Any], Any], grads_and_vars: Any, is_aggregated: bool
    ) -> Any:
        helper = self._agg_helper
        pairs = list(grads_and_vars)
        if helper is None:
            return apply(pairs if is_aggregated else self._hvd_aggregate(pairs))
        gradients, variables = _unzip(pairs)
        if not self._hvd_is_reduced(gradients):
            reduced = helper.compute_gradients(gradients, variables)
            pairs = list(zip(reduced, variables, strict=True))
        helper.apply_gradients(lambda: apply(pairs), self, pairs)
        return self.iterations  # type: ignore[attr-defined]


class DistributedTfKeras(_TfKeras):
    """For tf_keras.optimizers.Optimizer."""

    @as_it_is
    def aggregate_gradients(self, grads_and_vars: Any) -> list[tuple[Gradient, Any]]:
        return self._hvd_aggregate(grads_and_vars)

    @as_it_is
    def apply_gradients(
        self,
        grads_and_vars: Any,
        name: str | None = None,
        skip_gradients_aggregation: bool = False,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        parent = super()
        return self._hvd_apply(
            lambda pairs: parent.apply_gradients(  # type: ignore[misc]
                pairs, name=name, skip_gradients_aggregation=True
            ),
            grads_and_vars,
            skip_gradients_aggregation or not experimental_aggregate_gradients,
        )


class DistributedTfKerasLegacy(_TfKeras):
    """For tf_keras.optimizers.legacy.Optimizer."""

    @as_it_is
    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Gradient, Any]]:
        own = super(DistributedBase, self)._compute_gradients(loss, var_list, grad_loss, tape)  # type: ignore[misc]
        return self._hvd_remember(*_unzip(own))

    @as_it_is
    def _aggregate_gradients(self, grads_and_vars: Any) -> list[tuple[Gradient, Any]]:
        return self._hvd_aggregate(grads_and_vars)

    @as_it_is
    def apply_gradients(
        self,
        grads_and_vars: Any,
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        parent = super()
        return self._hvd_apply(
            lambda pairs: parent.apply_gradients(  # type: ignore[misc]
                pairs, name=name, experimental_aggregate_gradients=False
            ),
            grads_and_vars,
            not experimental_aggregate_gradients,
        )


def _unzip(grads_and_vars: Any) -> tuple[list[Gradient], list[Any]]:
    pairs = list(grads_and_vars)
    return [gradient for gradient, _ in pairs], [variable for _, variable in pairs]
