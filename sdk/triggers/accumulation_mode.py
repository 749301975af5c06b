"""How: what becomes of a window's contents when a pane was fired (Streaming 102, "How: accumulation", table 1)."""

from __future__ import annotations

from enum import Enum


class AccumulationMode(Enum):
    """How the panes of one window relate to each other."""

    DISCARDING = "discarding"
    """Each pane holds only what came since the last."""
    ACCUMULATING = "accumulating"
    """Each pane holds everything in the window so far."""
    ACCUMULATING_AND_RETRACTING = "accumulating and retracting"
    """The same, and before each pane the one before it is put out again as a retraction: an element whose `PaneInfo`
    has `is_retraction`. Later groupings take out what it stands for, so what they put out stays right."""
