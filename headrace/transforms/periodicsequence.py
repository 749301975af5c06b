"""Exports, under the module name of Beam, sources that put out elements periodically."""

from headrace.sdk.io.sequences import PeriodicImpulse, PeriodicSequence, RebaseMode

__all__ = ["PeriodicImpulse", "PeriodicSequence", "RebaseMode"]
