"""Bundle finalizers: callbacks of user code run after the commit of their epoch, and only then."""

from __future__ import annotations

import logging
import threading
from functools import partial
from pathlib import Path

import apache_beam as beam
import cloudpickle
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.lowlevel.code_pickling import ShippingError
from headrace.runners.beam import HeadraceRunner
from headrace.sdk.functions import lifecycle


def note(path, number):
    with open(path, "a") as file:
        file.write(f"{number} ")


class Notes(beam.DoFn):
    """Has each element noted when it is committed; a second DoFn may fail before."""

    def __init__(self, path):
        self._path = str(path)

    def process(self, number, finalizer=beam.DoFn.BundleFinalizerParam, window=beam.DoFn.WindowParam):
        finalizer.register(partial(note, self._path, number))
        yield number


class NotesWithTag(Notes):
    """Has outputs with a tag, too."""

    def process(self, number, finalizer=beam.DoFn.BundleFinalizerParam):
        finalizer.register(lambda: note(self._path, number))
        if number > 2:
            yield beam.pvalue.TaggedOutput("large", number)


class Keeps(beam.DoFn):
    """A stateful DoFn."""

    LAST = beam.transforms.userstate.ReadModifyWriteStateSpec("last", beam.coders.VarIntCoder())

    def __init__(self, path):
        self._path = str(path)

    def process(self, pair, last=beam.DoFn.StateParam(LAST), finalizer=beam.DoFn.BundleFinalizerParam):
        last.write(pair[1])
        finalizer.register(partial(note, self._path, pair[1]))


def noted(path: Path) -> list[int]:
    return sorted(map(int, path.read_text().split()))


def test_callbacks_run_after_the_commit(runner: HeadraceRunner, tmp_path: Path) -> None:
    with beam.Pipeline(runner=runner) as pipeline:
        numbers = pipeline | beam.Create([1, 2, 3]) | beam.ParDo(Notes(tmp_path / "plain"))
        large = numbers | beam.ParDo(NotesWithTag(tmp_path / "tagged")).with_outputs("large")
        _ = large["large"] | beam.Map(partial(note, str(tmp_path / "large")))
        _ = numbers | beam.WithKeys(0) | beam.ParDo(Keeps(tmp_path / "kept"))
    assert [noted(tmp_path / name) for name in ("plain", "tagged", "kept")] == [[1, 2, 3]] * 3
    # A task may be attempted twice, and this is no callback.
    assert set(noted(tmp_path / "large")) == {3}


def raises(number):
    raise ValueError("bad")


def test_nothing_is_called_for_what_is_not_committed(runner: HeadraceRunner, tmp_path: Path) -> None:
    pipeline = beam.Pipeline(runner=runner)
    _ = pipeline | beam.Create([1]) | beam.ParDo(Notes(tmp_path / "noted")) | beam.Reshuffle() | beam.Map(raises)
    with pytest.raises(ValueError):
        pipeline.run()
    assert not (tmp_path / "noted").exists()


def test_callbacks_of_a_failed_run_are_called_once_it_has_succeeded(tmp_path: Path) -> None:
    def run(last):
        options = PipelineOptions([f"--checkpoint={tmp_path / 'checkpoint'}"])
        with beam.Pipeline(runner=HeadraceRunner(), options=options) as pipeline:
            noting = pipeline | beam.Create([1, 2]) | beam.ParDo(Notes(tmp_path / "noted"))
            _ = noting | beam.Reshuffle() | "Last" >> beam.Map(last)

    with pytest.raises(ValueError):
        run(raises)
    run(str)
    assert noted(tmp_path / "noted") == [1, 2]


class Fails(beam.DoFn):
    def __init__(self, path):
        self._path = str(path)

    def process(self, number, finalizer=beam.DoFn.BundleFinalizerParam):
        finalizer.register(partial(raises, number))
        finalizer.register(partial(note, self._path, number))
        yield number


def test_a_callback_that_fails_is_logged(
    runner: HeadraceRunner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), beam.Pipeline(runner=runner) as pipeline:
        _ = pipeline | beam.Create([1]) | beam.ParDo(Fails(tmp_path / "noted"))
    assert noted(tmp_path / "noted") == [1]
    assert "a bundle finalizer of epoch 1 failed" in caplog.text


class Connects(beam.DoFn):
    """Acknowledges over what it opens in `setup`, which cannot be pickled."""

    def __init__(self, path):
        self._path = str(path)

    def setup(self):
        self._lock = threading.Lock()

    def acknowledge(self, number):
        with self._lock:
            note(self._path, number)

    def process(self, number, finalizer=beam.DoFn.BundleFinalizerParam):
        finalizer.register(partial(self.acknowledge, number))
        yield number


def test_in_memory_a_callback_need_not_be_pickled(tmp_path: Path) -> None:
    with beam.Pipeline(runner=HeadraceRunner()) as pipeline:
        _ = pipeline | beam.Create([1, 2]) | beam.ParDo(Connects(tmp_path / "noted"))
    assert noted(tmp_path / "noted") == [1, 2]


@pytest.mark.spark
def test_on_spark_such_a_callback_is_refused(spark: object, tmp_path: Path) -> None:
    pipeline = beam.Pipeline(runner=HeadraceRunner("SparkRunner"))
    _ = pipeline | beam.Create([1]) | "Connects" >> beam.ParDo(Connects(tmp_path / "noted"))
    with pytest.raises(ShippingError, match="step 'Connects' registered a bundle finalizer that cannot be sent"):
        pipeline.run()


def test_a_callback_of_this_process_is_called_once(tmp_path: Path) -> None:
    row = lifecycle.Finalizers("Step").row(partial(note, str(tmp_path / "noted"), 1))
    data = cloudpickle.dumps(row)
    for _ in range(2):
        lifecycle.finalize(1, [(cloudpickle.loads(data), 0)])
    assert noted(tmp_path / "noted") == [1]
