"""Under the name that Beam programs import: the clocks that timers wait for."""

from headrace.sdk.timedomain import TimeDomain

__all__ = ["TimeDomain"]
