"""Under the name that Beam programs import: elements with their timestamp, windows and pane."""

from headrace.sdk.panes import PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming
from headrace.sdk.windowedvalue import WindowedValue

__all__ = ["PANE_INFO_UNKNOWN", "PaneInfo", "PaneInfoTiming", "WindowedValue"]
