"""Exports, under the module name of Beam, elements with their timestamp, windows and pane."""

from headrace.sdk.model.panes import PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming
from headrace.sdk.model.special_outputs import WindowedValue

__all__ = ["PANE_INFO_UNKNOWN", "PaneInfo", "PaneInfoTiming", "WindowedValue"]
