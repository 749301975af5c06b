"""Under the name that Beam programs import: elements at their times."""

from headrace.sdk.io.ticks import PeriodicImpulse

__all__ = ["PeriodicImpulse"]
