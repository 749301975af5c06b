"""Plots of recorded runs: event time across, processing time up (Streaming 102); `headrace.plot` is the API."""
