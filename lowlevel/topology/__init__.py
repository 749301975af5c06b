"""Topologies: computations, streams between them, timers, injectors and sinks (MillWheel paper §3)."""
