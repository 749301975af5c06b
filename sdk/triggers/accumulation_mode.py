"""How: what happens to a window's contents after a pane (Streaming 102, "How: accumulation", table 1)."""

from __future__ import annotations

from enum import Enum

from headrace.lowlevel.stored_names import stored_as


@stored_as("AccumulationMode")
class AccumulationMode(Enum):
    """How the panes of one window relate to each other.

    >>> [mode.name for mode in AccumulationMode]
    ['DISCARDING', 'ACCUMULATING', 'ACCUMULATING_AND_RETRACTING']
    """

    DISCARDING = "discarding"
    """Each pane contains only the elements since the previous pane."""
    ACCUMULATING = "accumulating"
    """Each pane contains all elements of the window so far."""
    ACCUMULATING_AND_RETRACTING = "accumulating and retracting"
    """Each pane contains all elements of the window so far, and follows a retraction of the previous pane: an element
    whose `PaneInfo` has `is_retraction`. Later groupings remove the retracted pane from their contents."""
