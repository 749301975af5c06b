"""Checkpoints: where epochs are committed, and from where a run goes on (MillWheel paper §6.2).

Read `fence` for how drivers exclude each other, `paths` for what lies where, `driver` for what a runner calls.
"""

from headrace.lowlevel.checkpoint.archive import Archived
from headrace.lowlevel.checkpoint.change import Change, Consent
from headrace.lowlevel.checkpoint.copy_plan import CopyPlan
from headrace.lowlevel.checkpoint.delta_file import DeltaFile, DeltaHeader, write_deltas
from headrace.lowlevel.checkpoint.driver import Checkpoint
from headrace.lowlevel.checkpoint.fingerprint import Fingerprint
from headrace.lowlevel.checkpoint.manifest import Holder, Manifest, PendingProduction
from headrace.lowlevel.checkpoint.snapshot import Snapshot, SnapshotOrder, write_snapshot
from headrace.lowlevel.checkpoint.view import CheckpointView

__all__ = [
    "Archived",
    "Change",
    "Checkpoint",
    "CheckpointView",
    "Consent",
    "CopyPlan",
    "DeltaFile",
    "DeltaHeader",
    "Fingerprint",
    "Holder",
    "Manifest",
    "PendingProduction",
    "Snapshot",
    "SnapshotOrder",
    "write_deltas",
    "write_snapshot",
]
