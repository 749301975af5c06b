"""Under the name that Beam programs import: state and timers of a `DoFn`."""

from headrace.sdk.stateful.bag import BagState, BagStateSpec
from headrace.sdk.stateful.combining import CombiningValueState, CombiningValueStateSpec
from headrace.sdk.stateful.distinct import SetState, SetStateSpec
from headrace.sdk.stateful.orderedlist import OrderedListState, OrderedListStateSpec
from headrace.sdk.stateful.spec import StateSpec
from headrace.sdk.stateful.timer import UserTimer
from headrace.sdk.stateful.timerspec import TimerSpec, on_timer
from headrace.sdk.stateful.value import ReadModifyWriteState, ReadModifyWriteStateSpec

BagRuntimeState = BagState
CombiningValueRuntimeState = CombiningValueState
OrderedListRuntimeState = OrderedListState
ReadModifyWriteRuntimeState = ReadModifyWriteState
RuntimeTimer = UserTimer
SetRuntimeState = SetState

__all__ = [
    "BagRuntimeState",
    "BagState",
    "BagStateSpec",
    "CombiningValueRuntimeState",
    "CombiningValueState",
    "CombiningValueStateSpec",
    "OrderedListRuntimeState",
    "OrderedListState",
    "OrderedListStateSpec",
    "ReadModifyWriteRuntimeState",
    "ReadModifyWriteState",
    "ReadModifyWriteStateSpec",
    "RuntimeTimer",
    "SetRuntimeState",
    "SetState",
    "SetStateSpec",
    "StateSpec",
    "TimerSpec",
    "UserTimer",
    "on_timer",
]
