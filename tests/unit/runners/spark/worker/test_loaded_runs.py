"""What a worker process keeps of runs."""

from __future__ import annotations

from pathlib import Path

from headrace.lowlevel.state.state_store import Delta
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.messages import Sender
from headrace.runners.spark.worker.process import LoadedRuns
from headrace.runners.spark.worker.task_payload import TaskPayload, packed


def test_a_copied_checkpoint_is_another_place_though_it_has_the_same_name(tmp_path: Path) -> None:
    stores = [ObjectStore(str(tmp_path / name)) for name in ("original", "copy")]
    held, code = LoadedRuns(), packed(Topology())
    for number, store in enumerate(stores):
        _, host = held.take(TaskPayload.of(code, store, "run"))
        host.begin(0)
        host.save(number + 1, Sender(1, 0, f"token{number}"), 0, {"count": Delta(cells={(b"row", b""): b"1"})})
        assert list(host.finish([])) == []
    held.leave_all()
    assert [len(store.list("deltas")) for store in stores] == [1, 1]
