"""The state of watermarks in a commit, as `explain` reads it."""

from __future__ import annotations

from headrace.lowlevel.checkpoint.manifest.manifest import Manifest, oldest_by_consumer
from headrace.lowlevel.coders.plain_coder import PLAIN
from headrace.lowlevel.watermarks.explain import WatermarkState


def watermark_state_of(manifest: Manifest) -> WatermarkState:
    """Holders, holds, pending productions and injectors of a commit, from `CheckpointView.manifest`."""
    return WatermarkState(
        watermarks=manifest.input_watermarks,
        injectors=manifest.injectors(),
        skew_limit=manifest.skew_limit,
        positions={stream: PLAIN.decode(position) for stream, position in manifest.positions.items()},
        holders=manifest.holders,
        pending=oldest_by_consumer(manifest.pending),
        holds=manifest.holds,
        intervals=manifest.intervals,
    )
