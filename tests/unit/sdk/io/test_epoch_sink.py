"""Marks of sinks: drivers that go on, older copies of a checkpoint, destinations that are not the same, new names."""

from __future__ import annotations

import pytest

from headrace.io import EpochsLostError, SinkTakenError
from headrace.lowlevel import Batch
from headrace.sdk.io.epoch_sink import EpochSink, SinkMark


class Table:
    """A destination: rows, and marks of sinks."""

    def __init__(self):
        self.rows, self.marks = [], {}


class MemorySink(EpochSink):
    """Writes to a `Table`."""

    destination = "table 'shop'"

    def __init__(self, table, sink=None):
        super().__init__(sink)
        self._table = table

    def prepare(self):
        pass

    def stored(self, sink):
        return self._table.marks.get(sink)

    def rows(self, batch, epoch, interval, token):
        return repr(batch.values).encode()

    def write(self, run, epoch, receipts):
        if run.must_write(self.stored(run.sink), epoch, self.destination):
            self._table.rows += [receipt.decode() for receipt in receipts]
            self._table.marks[run.sink] = SinkMark(run.number, epoch)
        return True


class Checkpoint:
    """The receipts of the newest commit."""

    def __init__(self, epoch=0, receipts=()):
        self.epoch, self.receipts = epoch, receipts

    def copy(self):
        return Checkpoint(self.epoch, self.receipts)

    def commit(self, sink, *elements):
        """An epoch is committed, and not yet delivered."""
        self.epoch += 1
        staged = sink.stage(Batch(list(elements), [0] * len(elements)), self.epoch, 0, "t")
        self.receipts = [receipt for receipt in (staged, sink.held()) if receipt is not None]

    def run(self, sink, *elements):
        """An epoch."""
        self.commit(sink, *elements)
        sink.deliver(self.epoch, self.receipts)

    def restart(self, table, name=None):
        """A driver that goes on, or begins."""
        sink = MemorySink(table, name)
        sink.begin(anew=not self.epoch)
        if self.epoch:
            sink.deliver(self.epoch, self.receipts)
        return sink


@pytest.fixture
def table():
    return Table()


class TestOlderCopies:
    @pytest.mark.parametrize("last", [["b"], []], ids=["rows", "no rows"])
    def test_of_the_checkpoint_are_refused_at_once(self, table, last):
        """Also if the epoch that it goes on from has no rows: those of later ones may have others than before."""
        checkpoint = Checkpoint()
        sink = checkpoint.restart(table)
        checkpoint.run(sink, "a")
        checkpoint.run(sink, *last)
        copy = checkpoint.copy()
        checkpoint.run(sink, "c")
        message = r"^epoch 2 is committed, but was not written to table 'shop': epoch 3 of this run .* an older copy of"
        with pytest.raises(SinkTakenError, match=message):
            copy.restart(table)
        assert table.rows == ["['a']", *(["['b']"] if last else []), "['c']"]
        checkpoint.run(checkpoint.restart(table), "d")
        assert table.rows[-2:] == ["['c']", "['d']"]

    def test_do_not_go_on_under_another_name(self, table):
        checkpoint = Checkpoint()
        sink = checkpoint.restart(table, "first")
        checkpoint.run(sink, "a")
        copy = checkpoint.copy()
        checkpoint.run(sink, "b")
        with pytest.raises(SinkTakenError, match="epoch 2 of this run is already there"):
            copy.restart(table, "second")


class TestOtherDestinations:
    @pytest.mark.parametrize("name", [None, "shop"])
    def test_a_copy_of_the_checkpoint_is_tried_on_another_table(self, table, name):
        before = Checkpoint()
        before.run(before.restart(table, name), "before")
        checkpoint = Checkpoint()
        sink = checkpoint.restart(table, name)
        checkpoint.run(sink, "a")
        checkpoint.run(sink, "b")
        other, copied = Table(), checkpoint.copy()
        message = (
            "epoch 2 is .* not written to table 'shop': this run has written epoch 1 .* none of its epochs is there"
        )
        with pytest.raises(EpochsLostError, match=message):
            copied.restart(other, name)
        copied.run(copied.restart(other, "copy"), "c")
        copied.run(copied.restart(other, "copy"), "d")
        assert other.rows == ["['b']", "['c']", "['d']"]
        checkpoint.run(checkpoint.restart(table, name), "e")
        assert table.rows == ["['before']", "['a']", "['b']", "['e']"]

    def test_a_table_that_is_made_anew_while_the_run_goes_on(self, table):
        checkpoint = Checkpoint()
        sink = checkpoint.restart(table)
        checkpoint.run(sink, "a")
        table.marks.clear()
        with pytest.raises(EpochsLostError, match="none of its epochs is there"):
            checkpoint.run(sink, "b")
        assert table.rows == ["['a']"]

    def test_epochs_without_rows_are_not_missed(self, table):
        checkpoint = Checkpoint()
        for number in range(4):
            sink = checkpoint.restart(table)
            checkpoint.run(sink)
            checkpoint.commit(sink, number)
        assert table.rows == ["[0]", "[1]", "[2]"]


class TestNewNames:
    @pytest.mark.parametrize("names", [(None, "b"), ("a", "b"), ("a", None), ("a", "b", "a"), (None, "b", None)])
    @pytest.mark.parametrize("is_delivered", [True, False])
    def test_each_epoch_is_written_once(self, table, names, is_delivered):
        checkpoint = Checkpoint()
        for number, name in enumerate(names):
            sink = checkpoint.restart(table, name)
            checkpoint.run(sink, "first", number)
            checkpoint.commit(sink, "second", number)
            if is_delivered:
                sink.deliver(checkpoint.epoch, checkpoint.receipts)
        checkpoint.restart(table, names[-1])
        numbers = range(len(names))
        assert table.rows == [f"['{word}', {number}]" for number in numbers for word in ("first", "second")]

    def test_a_sink_that_has_lost_its_name_goes_on_under_another(self, table):
        checkpoints = [Checkpoint(), Checkpoint()]
        sinks = [checkpoint.restart(table, "shop") for checkpoint in checkpoints]
        checkpoints[0].run(sinks[0], "a")
        message = (
            r"epoch 1 is .* not written to table 'shop': .* sink's name 'shop'.* With another name this run goes on"
        )
        for refused in (lambda: checkpoints[1].run(sinks[1], "b"), lambda: checkpoints[1].restart(table, "shop")):
            with pytest.raises(SinkTakenError, match=message):
                refused()
        for _ in range(2):
            sink = checkpoints[1].restart(table, "other")
        checkpoints[1].run(sink, "c")
        assert table.rows == ["['a']", "['b']", "['c']"]
