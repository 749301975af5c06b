"""Under the name that Beam programs import: elements at their times."""

from headrace.sdk.io.periodic import PeriodicImpulse, PeriodicSequence, RebaseMode

__all__ = ["PeriodicImpulse", "PeriodicSequence", "RebaseMode"]
