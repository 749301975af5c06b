"""MillWheel's primitives: keyed computations, state, timers, low watermarks, injectors (the 2013 paper)."""

from headrace.lowlevel.checkpoint.listing import (
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
from headrace.lowlevel.checkpoint.view import CheckpointView
from headrace.lowlevel.coder import Coder, PickleCoder
from headrace.lowlevel.columnwise.computation import ColumnComputation
from headrace.lowlevel.columnwise.context import ColumnContext
from headrace.lowlevel.columnwise.fields import Field
from headrace.lowlevel.columnwise.rows import RecordColumns, TimerColumns
from headrace.lowlevel.computation import BundleComputation, Computation, Context, InlineComputation
from headrace.lowlevel.deadletter import DeadLetter
from headrace.lowlevel.errors import (
    CheckpointError,
    CollectedError,
    FencedError,
    HeadraceError,
    KeyEncodingError,
    StalledError,
    StepError,
    TopologyChangeError,
    TopologyError,
)
from headrace.lowlevel.handover import HandoverError
from headrace.lowlevel.injector import (
    BaseInjector,
    BoundedInjector,
    Delivery,
    Injector,
    LearningInjector,
    ManualInjector,
    MemorySplit,
    Split,
    TellingSplit,
)
from headrace.lowlevel.injectorprocess import InjectorProcess
from headrace.lowlevel.processinjector import ProcessInjector
from headrace.lowlevel.record import Batch, Record
from headrace.lowlevel.redelivery import Once, by_record_id
from headrace.lowlevel.sink import BeginningSink, CallSink, HoldingSink, ReleasingSink, SendSink, Sink
from headrace.lowlevel.timer import TimeDomain, Timer
from headrace.lowlevel.topology import Topology

__all__ = [
    "BaseInjector",
    "Batch",
    "BeginningSink",
    "BoundedInjector",
    "BundleComputation",
    "CallSink",
    "CheckpointError",
    "CheckpointView",
    "Coder",
    "CollectedError",
    "ColumnComputation",
    "ColumnContext",
    "CommittedEpoch",
    "Computation",
    "Context",
    "DeadLetter",
    "Delivery",
    "FencedError",
    "Field",
    "HandoverError",
    "HeadraceError",
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
    "ProcessInjector",
    "Record",
    "RecordColumns",
    "ReleasingSink",
    "SendSink",
    "Sink",
    "Split",
    "StalledError",
    "StepError",
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
    "Watermarks",
    "by_record_id",
]
