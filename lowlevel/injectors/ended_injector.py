"""An injector whose input ends where it was committed last, to finish a run that would have no end."""

from __future__ import annotations

from typing import cast

from headrace.lowlevel.injectors.injector import (
    CommittedInjector,
    Delivery,
    EndingInjector,
    HeldInjector,
    Injector,
)


class EndedInjector:
    """Another injector, of which nothing more is read: in all other respects it is that injector."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return cast(object, getattr(self._injector, name))

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """See `Injector`."""
        return Delivery([], position, done=True)

    # A check for a protocol may not see the methods that `__getattr__` finds.

    def committed(self, position: object) -> None:
        """See `CommittedInjector`."""
        if isinstance(self._injector, CommittedInjector):
            self._injector.committed(position)

    def run_ended(self) -> None:
        """See `EndingInjector`."""
        if isinstance(self._injector, EndingInjector):
            self._injector.run_ended()

    def holder(self, position: object) -> str | None:
        """See `HeldInjector`."""
        return self._injector.holder(position) if isinstance(self._injector, HeldInjector) else None
