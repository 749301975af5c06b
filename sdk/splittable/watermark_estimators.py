"""When: the watermark of a splittable DoFn's outputs of one element, estimated while the element is processed.

The source is `apache_beam.io.iobase.WatermarkEstimator`, `apache_beam.transforms.core.WatermarkEstimatorProvider` and
`apache_beam.io.watermark_estimators`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

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


class _DefaultProvider(WatermarkEstimatorProvider):
    """Makes estimators whose state is their watermark, at first None."""

    def __init__(self, make: Callable[[Timestamp | None], WatermarkEstimator]) -> None:
        self._make = make

    def initial_estimator_state(self, element: object, restriction: object) -> None:
        return None

    def create_watermark_estimator(self, estimator_state: object) -> WatermarkEstimator:
        return self._make(cast("Timestamp | None", estimator_state))


class MonotonicWatermarkEstimator(WatermarkEstimator):
    """The greatest timestamp so far, for outputs in order of their timestamps.

    Args:
        timestamp: The watermark so far; None for a new element.

    >>> estimator = MonotonicWatermarkEstimator(None)
    >>> estimator.observe_timestamp(Timestamp(5))
    >>> estimator.observe_timestamp(Timestamp(3))
    >>> estimator.current_watermark()
    Timestamp(5)
    """

    def __init__(self, timestamp: Timestamp | None) -> None:
        self._watermark = timestamp

    def observe_timestamp(self, timestamp: Timestamp) -> None:
        """See `WatermarkEstimator`."""
        if self._watermark is None or timestamp > self._watermark:
            self._watermark = timestamp

    def current_watermark(self) -> Timestamp | None:
        """See `WatermarkEstimator`."""
        return self._watermark

    def get_estimator_state(self) -> Timestamp | None:
        """See `WatermarkEstimator`."""
        return self._watermark

    @staticmethod
    def default_provider() -> WatermarkEstimatorProvider:
        """The provider to give to `DoFn.WatermarkEstimatorParam`."""
        return _DefaultProvider(MonotonicWatermarkEstimator)


class WalltimeWatermarkEstimator(WatermarkEstimator):
    """The time by the machine's clock, for outputs with the time at which they are made.

    >>> estimator = WalltimeWatermarkEstimator()
    >>> estimator.current_watermark() <= estimator.current_watermark()
    True

    Args:
        timestamp: The watermark so far; None for a new element.
    """

    def __init__(self, timestamp: Timestamp | None = None) -> None:
        self._timestamp = Timestamp.now() if timestamp is None else timestamp

    def observe_timestamp(self, timestamp: Timestamp) -> None:
        """See `WatermarkEstimator`; timestamps of outputs do not count."""

    def current_watermark(self) -> Timestamp:
        """See `WatermarkEstimator`."""
        self._timestamp = max(self._timestamp, Timestamp.now())
        return self._timestamp

    def get_estimator_state(self) -> Timestamp:
        """See `WatermarkEstimator`."""
        return self._timestamp

    @staticmethod
    def default_provider() -> WatermarkEstimatorProvider:
        """The provider to give to `DoFn.WatermarkEstimatorParam`."""
        return _DefaultProvider(WalltimeWatermarkEstimator)


class ManualWatermarkEstimator(WatermarkEstimator):
    """The watermark that `process` sets.

    >>> estimator = ManualWatermarkEstimator(None)
    >>> estimator.set_watermark(Timestamp(10))
    >>> estimator.current_watermark()
    Timestamp(10)

    Args:
        watermark: The watermark so far; None for a new element.
    """

    def __init__(self, watermark: Timestamp | None) -> None:
        self._watermark = watermark

    def observe_timestamp(self, timestamp: Timestamp) -> None:
        """See `WatermarkEstimator`; timestamps of outputs do not count."""

    def current_watermark(self) -> Timestamp | None:
        """See `WatermarkEstimator`."""
        return self._watermark

    def get_estimator_state(self) -> Timestamp | None:
        """See `WatermarkEstimator`."""
        return self._watermark

    def set_watermark(self, timestamp: Timestamp) -> None:
        """Set the watermark: no further output of the element has an earlier timestamp.

        Outputs that are earlier may be late. Raises ValueError for what is no `Timestamp`, or earlier than the last.
        """
        if not isinstance(timestamp, Timestamp):
            raise ValueError(f"set_watermark takes a Timestamp, got {timestamp!r:.200}; write Timestamp(seconds)")
        if self._watermark is not None and timestamp < self._watermark:
            raise ValueError(
                f"set_watermark got {timestamp}, earlier than {self._watermark} before; a watermark never decreases"
            )
        self._watermark = timestamp

    @staticmethod
    def default_provider() -> WatermarkEstimatorProvider:
        """The provider to give to `DoFn.WatermarkEstimatorParam`."""
        return _DefaultProvider(ManualWatermarkEstimator)
