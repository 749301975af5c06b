"""What one epoch is to do, as the driver plans it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.lowlevel.injector import Delivery, Injector
from headrace.runners.engine.journal import State
from headrace.runners.engine.skew import too_far_ahead


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


def delivered(
    injectors: Mapping[str, Injector], state: State, skew_limit: float | None, limit: int, splits: int
) -> dict[str, Delivery]:
    """What each injector is to contribute, about `limit` records in about so many splits.

    Nothing from one that has ended, or is too far ahead of the others (`skew_limit`, seconds).
    """
    deliveries = {}
    waiting = too_far_ahead(state.injectors, skew_limit)
    for stream, injector in injectors.items():
        position = state.positions[stream]
        if stream in state.done:
            deliveries[stream] = Delivery([], position, done=True, idle=True)
        elif stream in waiting:
            deliveries[stream] = Delivery([], position, state.injectors[stream].watermark, idle=True)
        else:
            deliveries[stream] = injector.plan(position, limit, splits)
    return deliveries
