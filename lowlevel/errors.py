"""The errors of the package. Each states the violated rule, the remedy, and whether anything was committed."""

from __future__ import annotations

import pickle
import shlex

from headrace.lowlevel.stored_names import stored_as


class HeadraceError(Exception):
    """Base of all errors of this package.

    >>> import headrace as beam
    >>> try:
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | "Numbers" >> beam.Create([1, 0]) | "Invert" >> beam.Map(lambda number: 1 / number)
    ... except HeadraceError as error:
    ...     print(type(error).__name__, error.step, error.value)
    StepError Invert 0
    """


class TopologyError(HeadraceError, ValueError):
    """A topology or pipeline cannot run; raised while it is built, before anything has run.

    >>> from headrace.lowlevel import CallSink, Topology
    >>> topology = Topology()
    >>> topology.sink("print", "words", CallSink(print))
    >>> topology.validate()
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.TopologyError: ...
    """


_REMEDY = (
    "use None, bool, int, float, str, bytes, a date, an enumeration, a named tuple, a frozen dataclass, or a tuple of "
    "them, or give its type a coder: headrace.coders.registry.register_coder(type, coder)"
)


class KeyEncodingError(HeadraceError, TypeError):
    """A key has no deterministic encoding.

    >>> import headrace as beam
    >>> try:
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | beam.Create([(object(), 1)]) | beam.GroupByKey()
    ... except KeyEncodingError as error:
    ...     print(error.step, isinstance(error, StepError))
    GroupByKey True
    """

    def __init__(self, key: object, remedy: str | None = None) -> None:
        self.key = key
        name = type(key).__name__
        if type(key).__module__ == "numpy":
            # NumPy has types with the names of Python's own.
            name, remedy = f"numpy.{name}", "make a value of Python of it: value.item()"
        super().__init__(f"key {key!r:.200} of type {name} cannot be encoded deterministically; {remedy or _REMEDY}")


class CoderError(HeadraceError, TypeError):
    """A registered coder cannot be made, sent to the workers, or loaded there.

    >>> print(CoderError("Score", "ScoreCoder", "cannot be loaded in this process"))
    the coder ScoreCoder that is registered for type Score cannot be loaded in this process
    """

    def __init__(self, kind: str, coder: str, problem: str) -> None:
        self.kind, self.coder, self.problem = kind, coder, problem
        super().__init__(kind, coder, problem)

    def __str__(self) -> str:
        return f"the coder {self.coder} that is registered for type {self.kind} {self.problem}"


class StepError(HeadraceError, RuntimeError):
    """User code raised an exception; nothing of the epoch is committed, unless the error says so.

    If possible, the error that `Pipeline.run` raises is an instance of the class that user code raised as well. The
    original exception is its `__cause__`.

    >>> import headrace as beam
    >>> try:
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | "Lines" >> beam.Create(["12", "twelve"]) | "Parse" >> beam.Map(int)
    ... except ValueError as error:
    ...     print(isinstance(error, StepError), error.step, error.key, error.value, repr(error.__cause__))
    True Parse None twelve ValueError("invalid literal for int() with base 10: 'twelve'")

    Args:
        step: Label of the step.
        key: The key; None if the step has none.
        value: The value.
        cause: The formatted traceback.
        raised: The pickled exception, see `user_errors.packed`; None if it cannot be pickled.
        outcome: What is committed.
    """

    def __init__(
        self,
        step: str,
        key: object,
        value: object,
        cause: str,
        raised: bytes | None = None,
        outcome: str = "nothing of this epoch is committed",
    ) -> None:
        self.step, self.key, self.value, self.cause, self.raised = step, key, value, cause, raised
        self.outcome = outcome
        # Without `super().__init__`, which may be the constructor of another base.
        self.args = (step, key, value, cause)

    def __reduce__(self) -> tuple[object, ...]:
        own = self.step, sendable(self.key), sendable(self.value), self.cause, self.raised, self.outcome
        return type(self), own

    def __str__(self) -> str:
        where = f"step {self.step!r} raised"
        if self.key is not None:
            where += f" for key {_shown(self.key)}"
        if self.value is not None:
            where += f" at {_shown(self.value)}"
        return f"{where}; {self.outcome}\n{self.cause}"


def _shown(value: object) -> str:
    """The beginning of a value's `repr`; it may fail, as that of an instance whose class has changed."""
    try:
        return f"{value!r:.200}"
    except Exception as error:
        return f"<{type(value).__qualname__} whose repr raised {type(error).__name__}>"


class StoredClassError(StepError):
    """A class that stored data names is gone or has changed; nothing of the epoch is committed.

    Args:
        name: Module and qualified name of the class, as stored.
        problem: What is wrong with it.
        step: Label of the step; None where it is not known yet.
        of_keys: Whether it is known to be a class of keys. These are told apart by its name, so another name for the
            class is no remedy.

    >>> print(StoredClassError("visits.Page", "is no longer in the program", "Sum"))
    step 'Sum' cannot go on: stored data names visits.Page, which is no longer in the program; put the class back ...
    """

    def __init__(self, name: str, problem: str, step: str | None = None, of_keys: bool = False) -> None:
        super().__init__(step or "", None, None, problem)
        self.name, self.problem, self.of_keys = name, problem, of_keys

    def of_step(self, step: str) -> StoredClassError:
        """The error with the label of its step, if it has none yet."""
        return self if self.step else StoredClassError(self.name, self.problem, step, self.of_keys)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self.problem, self.step, self.of_keys)

    def __str__(self) -> str:
        where = f"step {self.step!r} cannot go on: " if self.step else ""
        module, _, name = self.name.rpartition(".")
        removed = shlex.quote(f"--allow_removed={self.step or 'LABEL'}")
        back = f"put the class back as it was, give its new place this name (`{name} = ...` in module {module}), or"
        if self.of_keys:
            back = "put the class back under its old name, or"
        return (
            f"{where}stored data names {self.name}, which {self.problem}; {back} begin the step without its stored "
            f"data: give it another label, and start once with {removed}. Nothing of this epoch is committed"
        )


@stored_as("ShownValue", parts=lambda shown: (str(shown),))
class Shown(str):
    """The representation of a value that cannot be pickled, in place of the value in an error."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def sendable(value: object) -> object:
    """The value, or its representation if it cannot be pickled."""
    try:
        pickle.dumps(value)
    except Exception:
        return Shown(repr(value))
    return value


class StalledError(HeadraceError, RuntimeError):
    """A hold keeps the watermark back, and no timer is left that could release it. Earlier epochs are committed.

    >>> from headrace.lowlevel import BoundedInjector, Computation, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> class Holder(Computation):
    ...     def process_record(self, record, context):
    ...         context.hold(record.timestamp)
    >>> topology = Topology()
    >>> topology.injector("visits", BoundedInjector([("red", 5)]))
    >>> topology.computation("holder", Holder(), {"visits": str}, ["out"])
    >>> topology.computation("reader", Computation(), {"out": str})
    >>> LocalRunner().run_topology(topology)
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.StalledError: ...
    """


class FencedError(HeadraceError, RuntimeError):
    """Another driver has taken over the checkpoint. Nothing that this driver tried after that is committed.

    >>> import headrace as beam
    >>> from tempfile import TemporaryDirectory
    >>> from headrace.options.pipeline_options import PipelineOptions
    >>> def run(checkpoint, progress):
    ...     options = PipelineOptions(checkpoint=checkpoint, progress=progress, max_records_per_epoch=1)
    ...     with beam.Pipeline("LocalRunner", options) as pipeline:
    ...         _ = pipeline | beam.Create([("red", 1), ("red", 2)]) | beam.CombinePerKey(sum)
    >>> with TemporaryDirectory() as folder:
    ...     run(folder, lambda progress: run(folder, None))
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.FencedError: ...
    """


class CheckpointError(HeadraceError, RuntimeError):
    """A checkpoint cannot be read, is damaged, or belongs to another program. Nothing was changed.

    >>> from headrace.lowlevel import CheckpointView
    >>> CheckpointView.of("memory://")
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.CheckpointError: there is no checkpoint at memory://; correct the location
    """


EMPTY = "it is empty"
"""The damage of an object without bytes, for `DamagedError`."""


class DamagedError(CheckpointError):
    """An object of a checkpoint is empty, or its bytes do not match its checksum.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import headrace as beam
    >>> from headrace.lowlevel import CheckpointView
    >>> from headrace.options.pipeline_options import PipelineOptions
    >>> with TemporaryDirectory() as folder:
    ...     with beam.Pipeline("LocalRunner", PipelineOptions(checkpoint=folder)) as pipeline:
    ...         _ = pipeline | beam.Create([("red", 1)]) | beam.CombinePerKey(sum)
    ...     newest = max(path for path in Path(folder, "log").iterdir() if path.is_file())
    ...     _ = newest.write_bytes(newest.read_bytes()[:-1])
    ...     CheckpointView.of(folder)
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.DamagedError: log/...
    """

    def __init__(self, name: str, damage: str, remedy: str = "") -> None:
        self.name, self.damage = name, damage
        self.remedy = remedy or "put an intact copy of the file there, or start over on an empty checkpoint"
        super().__init__(name, damage, self.remedy)

    def __str__(self) -> str:
        return f"{self.name} is damaged ({self.damage}); {self.remedy}"


class CollectedError(CheckpointError):
    """Files of an older commit were deleted because the run has gone on; the remedy is to read the checkpoint again.

    >>> from headrace.lowlevel import CheckpointView
    >>> def timers(place):
    ...     while True:
    ...         try:
    ...             return CheckpointView.of(place).timers()
    ...         except CollectedError:
    ...             continue  # the run has gone on meanwhile: its newer commit is read
    """


class TopologyChangeError(CheckpointError):
    """A changed pipeline cannot go on with the stored state. Nothing was changed, and a running pipeline goes on.

    >>> import headrace as beam
    >>> from tempfile import TemporaryDirectory
    >>> from headrace.options.pipeline_options import PipelineOptions
    >>> def run(label, checkpoint):
    ...     with beam.Pipeline("LocalRunner", PipelineOptions(checkpoint=checkpoint)) as pipeline:
    ...         _ = pipeline | "Pairs" >> beam.Create([("red", 1)]) | label >> beam.CombinePerKey(sum)
    >>> with TemporaryDirectory() as folder:
    ...     run("Sum", folder)
    ...     run("Total", folder)
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.TopologyChangeError: ...
    """
