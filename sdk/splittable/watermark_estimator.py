"""When: the watermark of a splittable DoFn's outputs of one element, estimated while the element is processed.

The source is `apache_beam.io.iobase.WatermarkEstimator` and `apache_beam.transforms.core.WatermarkEstimatorProvider`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from headrace.lowlevel.coders.coder import Coder
from headrace.lowlevel.time import Timestamp
from headrace.sdk.coders.registry import registry


class WatermarkEstimator(ABC):
    """A lower bound of the timestamps of an element's further outputs.

    >>> from headrace.io.watermark_estimators import MonotonicWatermarkEstimator
    >>> from headrace.utils.timestamp import Timestamp
    >>> estimator = MonotonicWatermarkEstimator(Timestamp(10))
    >>> estimator.observe_timestamp(Timestamp(15))
    >>> estimator.current_watermark()
    Timestamp(15)
    """

    @abstractmethod
    def get_estimator_state(self) -> object:
        """The state from which an equal estimator is made when processing of the element is resumed."""

    @abstractmethod
    def current_watermark(self) -> Timestamp | None:
        """The estimate, which never decreases; None if there is none, which means the timestamp of the element."""

    @abstractmethod
    def observe_timestamp(self, timestamp: Timestamp) -> None:
        """Take notice of an output's timestamp."""


class WatermarkEstimatorProvider(ABC):
    """Makes the watermark estimators of elements. Give an instance to `DoFn.WatermarkEstimatorParam`.

    >>> from headrace.io.watermark_estimators import MonotonicWatermarkEstimator
    >>> class OfElement(WatermarkEstimatorProvider):
    ...     def initial_estimator_state(self, element, restriction):
    ...         return None
    ...     def create_watermark_estimator(self, estimator_state):
    ...         return MonotonicWatermarkEstimator(estimator_state)
    >>> OfElement().create_watermark_estimator(None).current_watermark() is None
    True
    """

    @abstractmethod
    def initial_estimator_state(self, element: Any, restriction: Any) -> object:
        """The state of the estimator of an element that is new."""

    @abstractmethod
    def create_watermark_estimator(self, estimator_state: Any) -> WatermarkEstimator:
        """An estimator with a state."""

    def estimator_state_coder(self) -> Coder:
        """The coder of states; by default, pickle."""
        return registry.get_coder(object)
