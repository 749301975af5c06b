"""Exports, under the module name of Beam, the time domains of timers."""

from headrace.sdk.model.time_domain import TimeDomain

__all__ = ["TimeDomain"]
