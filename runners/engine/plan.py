"""What one epoch is to do, as the driver plans it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lowlevel.injector import Delivery


@dataclass(frozen=True, slots=True)
class Plan:
    """The deliveries of an epoch and its time."""

    deliveries: dict[str, Delivery]
    """By injector stream."""
    clock: int
    """The reading of the wall clock, microseconds UTC."""

    @property
    def idle(self) -> bool:
        """Whether no injector has anything new."""
        return all(delivery.idle for delivery in self.deliveries.values())
