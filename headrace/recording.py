"""Recordings of runs, from which `headrace.plot` draws pictures: arrivals, moves of the watermark, panes, timers."""

from headrace.sdk.pipeline.pipeline import record_topology
from headrace.sdk.recording.checkpoint_recording import recording_at
from headrace.sdk.recording.recording import (
    Arrival,
    FiredTimer,
    Production,
    RecordedPane,
    Recording,
    RecordingError,
    StepRecording,
    WatermarkStep,
)

__all__ = [
    "Arrival",
    "FiredTimer",
    "Production",
    "RecordedPane",
    "Recording",
    "RecordingError",
    "StepRecording",
    "WatermarkStep",
    "record_topology",
    "recording_at",
]
