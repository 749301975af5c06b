"""Exports, under the module name of Beam, the time domains of timers."""

from headrace.sdk.userstate.timers import TimeDomain

__all__ = ["TimeDomain"]
