"""Runs recorded for pictures: panes, watermarks and state, epoch by epoch."""
