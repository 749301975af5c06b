"""Elements: value, event time, windows and pane."""
