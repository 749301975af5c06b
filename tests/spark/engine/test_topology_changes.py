"""Changed topologies on Spark: live, and by restarting with a changed program on the same checkpoint."""

from __future__ import annotations

import pytest

from headrace.lowlevel import TopologyChangeError
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash
from headrace.runners.spark import SparkRunner
from tests.checkpoints import contents
from tests.faults.changing import CONSENT, STAYS, Changing, Outside, run, topology

pytestmark = pytest.mark.spark


class Tens(Changing):
    """Ten records an epoch; crashes before an epoch is planned, if told to."""

    def __init__(self, outside, at=(), crash_before=None):
        super().__init__(0, outside, dict(at))
        self._crash_before = crash_before

    def bundle_size(self, epoch, limit):
        return 10

    def step(self, name, epoch):
        super().step(name, epoch)
        if (name, epoch) == ("plan", self._crash_before):
            raise Crash


def life(spark, scheduler, place, parts, **options):
    """A run on Spark to its end."""
    runner = SparkRunner(spark, intervals=2, steps=scheduler)
    scheduler.running = runner.start(topology(scheduler.outside, parts), RunOptions(str(place), **options))
    scheduler.begun.set()
    return scheduler.running.wait(120)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    outside, place = Outside(), tmp_path_factory.mktemp("undisturbed")
    run(Changing(0, outside, {}), place)
    return outside, place


def check(outside, place, undisturbed):
    expected, its_place = undisturbed
    assert outside.values("minutes") == expected.values("minutes")
    assert outside.values("arrived") == expected.values("arrived")
    own, its = (Checkpoint.read(ObjectStore(str(where))) for where in (place, its_place))
    assert {name: contents(own.load(name)) for name in STAYS} == {name: contents(its.load(name)) for name in STAYS}
    return own


def test_parts_come_and_go_while_it_runs(spark, tmp_path, undisturbed):
    scheduler = Tens(Outside(), {2: ("front", "tally"), 4: ("waiting",)})
    result = life(spark, scheduler, tmp_path, ())
    assert [done.result(0) for _, done in scheduler.asked] == [3, 5]
    assert result.watermarks.keys() == {*STAYS, "waiting"}
    view = check(scheduler.outside, tmp_path, undisturbed)
    assert len(scheduler.outside.values("fired")) == 5
    assert {one.member.name for one in view.archive} == {"front", "tally"}


def test_a_changed_program_goes_on_with_the_checkpoint(spark, tmp_path, undisturbed):
    outside = Outside()
    with pytest.raises(Crash):
        life(spark, Tens(outside, crash_before=5), tmp_path, ("tally",))
    with pytest.raises(TopologyChangeError, match="computation 'tally' is gone; give it its name back"):
        life(spark, Tens(outside), tmp_path, ("front", "waiting"))
    life(spark, Tens(outside), tmp_path, ("front", "waiting"), **CONSENT)
    view = check(outside, tmp_path, undisturbed)
    assert len(outside.values("fired")) == 5
    assert view.load("tally").count()["cells"] == 5
