"""MillWheel's primitives: keyed computations, state, timers, low watermarks, injectors (the 2013 paper)."""

from headrace.lowlevel.checkpoint.compatibility import Consent
from headrace.lowlevel.checkpoint.inspection.checkpoint_view import CheckpointView
from headrace.lowlevel.checkpoint.inspection.values import (
    CommittedEpoch,
    InjectorState,
    PendingRecords,
    StoredFile,
    StoredHold,
    StoredLine,
    StoredState,
    StoredTimer,
    Watermarks,
)
from headrace.lowlevel.code_pickling import ShippingError
from headrace.lowlevel.coders.coder import Coder, PickleCoder
from headrace.lowlevel.errors import (
    CheckpointError,
    CoderError,
    CollectedError,
    DamagedError,
    FencedError,
    HeadraceError,
    KeyEncodingError,
    StalledError,
    StepError,
    StoredClassError,
    TopologyChangeError,
    TopologyError,
)
from headrace.lowlevel.injectors.handover_log import HandoverError
from headrace.lowlevel.injectors.injector import (
    BaseInjector,
    BoundedInjector,
    CommittedInjector,
    Delivery,
    EndingInjector,
    HeldInjector,
    Injector,
    LearningInjector,
    ManualInjector,
    MemorySplit,
    Split,
    TellingSplit,
    WakingInjector,
)
from headrace.lowlevel.injectors.process_injector import InjectorProcess, ProcessInjector
from headrace.lowlevel.records.record import Batch, Record
from headrace.lowlevel.sinks.sink import (
    AgreeingSink,
    BaseSink,
    BeginningSink,
    CallSink,
    HoldingSink,
    ReleasingSink,
    SendSink,
    Sink,
)
from headrace.lowlevel.storage.object_store import PlaceError, StoreError
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND
from headrace.lowlevel.topology.computation import BundleComputation, Computation, Context, InlineComputation
from headrace.lowlevel.topology.nodes import DeadLetter
from headrace.lowlevel.topology.redelivery import Once, by_record_id
from headrace.lowlevel.topology.timer import TimeDomain, Timer
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.vectorized.computation import ColumnComputation
from headrace.lowlevel.vectorized.context import ColumnContext
from headrace.lowlevel.vectorized.fields import Field
from headrace.lowlevel.vectorized.rows import RecordColumns, TimerColumns

__all__ = [
    "MAX_TIMESTAMP",
    "MIN_TIMESTAMP",
    "SECOND",
    "AgreeingSink",
    "BaseInjector",
    "BaseSink",
    "Batch",
    "BeginningSink",
    "BoundedInjector",
    "BundleComputation",
    "CallSink",
    "CheckpointError",
    "CheckpointView",
    "Coder",
    "CoderError",
    "CollectedError",
    "ColumnComputation",
    "ColumnContext",
    "CommittedEpoch",
    "CommittedInjector",
    "Computation",
    "Consent",
    "Context",
    "DamagedError",
    "DeadLetter",
    "Delivery",
    "EndingInjector",
    "FencedError",
    "Field",
    "HandoverError",
    "HeadraceError",
    "HeldInjector",
    "HoldingSink",
    "Injector",
    "InjectorProcess",
    "InjectorState",
    "InlineComputation",
    "KeyEncodingError",
    "LearningInjector",
    "ManualInjector",
    "MemorySplit",
    "Once",
    "PendingRecords",
    "PickleCoder",
    "PlaceError",
    "ProcessInjector",
    "Record",
    "RecordColumns",
    "ReleasingSink",
    "SendSink",
    "ShippingError",
    "Sink",
    "Split",
    "StalledError",
    "StepError",
    "StoreError",
    "StoredClassError",
    "StoredFile",
    "StoredHold",
    "StoredLine",
    "StoredState",
    "StoredTimer",
    "TellingSplit",
    "TimeDomain",
    "Timer",
    "TimerColumns",
    "Topology",
    "TopologyChangeError",
    "TopologyError",
    "WakingInjector",
    "Watermarks",
    "by_record_id",
]
