"""Checkpoints: durable storage of committed epochs, from which a run continues (MillWheel paper §6.2).

`log.fence` describes how drivers exclude each other, `storage.object_names` the layout of objects, and `committer` the
interface for runners.
"""

from headrace.lowlevel.checkpoint.committer import Checkpoint
from headrace.lowlevel.checkpoint.compatibility import Consent, TopologyDifference
from headrace.lowlevel.checkpoint.files.delta_file import DeltaFile, DeltaHeader, write_deltas
from headrace.lowlevel.checkpoint.files.file_chain import FileChain
from headrace.lowlevel.checkpoint.files.snapshot import SnapshotOrder, SnapshotParts, write_snapshot
from headrace.lowlevel.checkpoint.inspection.checkpoint_view import CheckpointView
from headrace.lowlevel.checkpoint.manifest.fingerprint import Fingerprint
from headrace.lowlevel.checkpoint.manifest.manifest import Archived, Manifest, PendingProduction

__all__ = [
    "Archived",
    "Checkpoint",
    "CheckpointView",
    "Consent",
    "DeltaFile",
    "DeltaHeader",
    "FileChain",
    "Fingerprint",
    "Manifest",
    "PendingProduction",
    "SnapshotOrder",
    "SnapshotParts",
    "TopologyDifference",
    "write_deltas",
    "write_snapshot",
]
