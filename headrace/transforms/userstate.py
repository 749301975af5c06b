"""Exports, under the module name of Beam, state and timers of a `DoFn`."""

from headrace.sdk.userstate.collection_states import (
    BagState,
    BagStateSpec,
    OrderedListState,
    OrderedListStateSpec,
    SetState,
    SetStateSpec,
)
from headrace.sdk.userstate.state_spec import StateSpec
from headrace.sdk.userstate.timers import TimerSpec, UserTimer, on_timer
from headrace.sdk.userstate.value_states import (
    CombiningValueState,
    CombiningValueStateSpec,
    ReadModifyWriteState,
    ReadModifyWriteStateSpec,
)

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
