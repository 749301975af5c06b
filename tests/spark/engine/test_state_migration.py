"""Edits that give a grouping another way go on with its state on Spark, from process to process."""

from __future__ import annotations

import pytest

from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner
from headrace.runners.spark import SparkRunner
from tests.groupingedits import LIMIT, Edit, Rows, lives, outcome, topology

pytestmark = pytest.mark.spark


def test_a_fan_out_comes_and_goes(spark, tmp_path):
    """Sessions by columns, key by key behind shards, and back, each after a restart; the last on the local runner."""
    never: Rows = {}
    LocalRunner(intervals=2).run_topology(topology(Edit(), never), RunOptions(max_records_per_epoch=LIMIT))
    rows: Rows = {}
    edits = [Edit(), Edit(fanout=3), Edit(), Edit(fanout=2)]
    options = RunOptions(str(tmp_path), max_records_per_epoch=LIMIT)
    *first, (last, _) = lives(edits, [2, 4, 6])
    for edit, dies in first:
        with pytest.raises(Crash):
            SparkRunner(spark, intervals=3, steps=dies).run_topology(topology(edit, rows), options)
    LocalRunner(intervals=2).run_topology(topology(last, rows), options)
    assert outcome(rows) == outcome(never)
