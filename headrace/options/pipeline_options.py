"""Options of a pipeline, from flags, keywords or a dictionary (`apache_beam.options.pipeline_options`).

The classes from `StandardOptions` on are the table of all options. A row such as `EngineOptions.cache_mb` is a flag of
the command line and a keyword of `PipelineOptions`, and it names the modules that read the option. If these belong to
the engine, `RunOptions` (`headrace.runners.engine.options`) has a field made of the row, here `cache_bytes`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from headrace.lowlevel.storage.places import hidden
from headrace.options.beam_options import BEAM_OPTIONS, ignored_values
from headrace.options.option import (
    AIM,
    COUNT,
    FILE,
    FUNCTION,
    LABELS,
    LABELS_OR_ALL,
    MEBIBYTES,
    NAME,
    OFF_SWITCH,
    PLACE,
    SECONDS,
    SWITCH,
    TWO_WAY_SWITCH,
    Option,
    Parser,
    declared,
    defaults_of,
    names_of,
    subclasses,
    unknown_options,
)

__all__ = [
    "AzureOptions",
    "CrossLanguageOptions",
    "DebugOptions",
    "DirectOptions",
    "EngineOptions",
    "FlinkRunnerOptions",
    "GoogleCloudOptions",
    "HadoopFileSystemOptions",
    "PipelineOptions",
    "PortableOptions",
    "ProfilingOptions",
    "S3Options",
    "SetupOptions",
    "SparkRunnerOptions",
    "StandardOptions",
    "StreamingOptions",
    "TestOptions",
    "TypeOptions",
    "WorkerOptions",
]

ViewT = TypeVar("ViewT", bound="PipelineOptions")


class PipelineOptions:
    """All options of a pipeline. Subclasses declare options in `_add_argparse_args`; `view_as` gives access to them.

    Options are written `--name=value`, in `flags` and on the command line; `headrace options` lists all of them. An
    option that no subclass declares is refused when a pipeline runs (`headrace.options.known_options`), not
    earlier, as any part of the program may declare options until then.

    Args:
        flags: Command line flags; `sys.argv` if None. Undeclared flags from `sys.argv` are refused only if they look
            like misspelt options, as other flags may belong to the program.
        **overrides: Option name -> value.

    Raises:
        AttributeError: An option that no subclass declares is read or set.
        TypeError: `flags` is one text instead of a list of flags.

    >>> class Threshold(PipelineOptions):
    ...     @classmethod
    ...     def _add_argparse_args(cls, parser):
    ...         parser.add_argument("--threshold", type=int, default=10)
    >>> options = PipelineOptions(["--threshold=3", "--checkpoint=there"])
    >>> options.view_as(Threshold).threshold, options.view_as(EngineOptions).checkpoint
    (3, 'there')
    """

    def __init__(self, flags: Sequence[str] | None = None, **overrides: object) -> None:
        if isinstance(flags, str):
            raise TypeError(
                f"PipelineOptions takes a list of flags, got the text {flags!r:.200}; write [{flags!r:.200}]"
            )
        self._flags = list(sys.argv[1:] if flags is None else flags)
        self._foreign = len(self._flags) if flags is None else 0
        """Number of leading flags that are from `sys.argv`."""
        self._named = set(overrides)
        """Names of the options given as keywords or in a dictionary."""
        # All views share these:
        self._values = dict(overrides)
        self._seen = set[type[PipelineOptions]]()
        """Classes whose options are among the values."""
        self._told = set[str]()
        """Options that a warning has named."""
        self._parse()

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        """Declare the options of a subclass, with `parser.add_argument`; by default those in its table."""
        for option in declared(cls):
            option.add_to(parser)

    @classmethod
    def _parser(cls) -> Parser:
        parser = Parser()
        for kind in reversed(cls.__mro__):
            if issubclass(kind, PipelineOptions) and _declares(kind):
                kind._add_argparse_args(parser)
        return parser

    def _parse(self) -> None:
        """Parse the flags for the options of this class, and add the values that are not set yet."""
        namespace, _ = self._parser().known(self._flags)
        for name, value in vars(namespace).items():
            self._values.setdefault(name, value)
        self._seen.add(type(self))

    @classmethod
    def from_dictionary(cls: type[ViewT], options: Mapping[str, object]) -> ViewT:
        """Options from a dictionary: True gives a flag without a value, a list gives one flag for each item.

        >>> PipelineOptions.from_dictionary({"runner": "LocalRunner"}).view_as(StandardOptions).runner
        'LocalRunner'
        """
        flags, off = [], {}
        for name, value in options.items():
            if value is True:
                flags.append(f"--{name}")
            elif value is False:
                off[name] = value
            elif isinstance(value, (list, tuple)):
                flags += [f"--{name}={item}" for item in value]
            elif value is not None:
                flags.append(f"--{name}={value}")
        made = cls(flags, **off)
        made._named.update(options)
        return made

    def view_as(self, kind: type[ViewT]) -> ViewT:
        """The same options as an instance of `kind`; a change through one view shows in all views."""
        view = kind.__new__(kind)
        view.__dict__.update(self.__dict__)
        if kind not in self._seen:
            # Building a parser takes a millisecond, and a run views the same options several times.
            view._parse()
        return view

    def get_all_options(self, drop_default: bool = False, retain_unknown_options: bool = False) -> dict[str, object]:
        """Option name -> value, for the options of all subclasses.

        Args:
            drop_default: Whether options that have their default value are left out.
            retain_unknown_options: Whether undeclared flags are added, with text as value, or True for a flag without
                a value.
        """
        defaults: dict[str, object] = {}
        for kind in option_classes():
            self.view_as(kind)
            defaults.update(defaults_of(kind._parser()))
        values = dict(self._values)
        if retain_unknown_options:
            values = unknown_options(self.undeclared()) | values
        if drop_default:
            values = {name: value for name, value in values.items() if value != defaults.get(name)}
        return values

    def undeclared(self) -> list[str]:
        """Flags that no subclass declares.

        >>> PipelineOptions(["--checkpiont=there", "--streaming"]).undeclared()
        ['--checkpiont=there']
        """
        return self._of_nobody(self._flags)

    def refusable(self) -> tuple[list[str], list[str]]:
        """The options that no subclass declares: those given to this object, and those found in `sys.argv`."""
        named = sorted(self._named - set(self.names()))
        given = [f"--{name}" for name in named if name not in set(names_of(self._flags))]
        return [*self._of_nobody(self._flags[self._foreign :]), *given], self._of_nobody(self._flags[: self._foreign])

    def told_of(self, names: Collection[str]) -> bool:
        """Whether earlier calls, on any view of the options, named all of these options; the names are remembered."""
        known = self._told.issuperset(names)
        self._told.update(names)
        return known

    def _of_nobody(self, flags: Sequence[str]) -> list[str]:
        return any_option(self._seen).known(flags)[1]

    @staticmethod
    def names() -> list[str]:
        """The names of all options that a subclass declares, sorted."""
        return sorted(defaults_of(any_option()))

    def add_flags(self, flags: Sequence[str]) -> None:
        """Add flags that override earlier values, in all views.

        >>> options = PipelineOptions([], checkpoint="here")
        >>> options.add_flags(["--checkpoint=there"])
        >>> options.view_as(EngineOptions).checkpoint
        'there'
        """
        self._flags.extend(flags)
        self._seen.clear()
        for kind in option_classes():
            self._values.update(vars(kind._parser().without_defaults().known(flags)[0]))

    def display_data(self) -> dict[str, object]:
        """Option name -> value, for options that differ from their defaults and for undeclared flags."""
        return self.get_all_options(drop_default=True, retain_unknown_options=True)

    def __getattr__(self, name: str) -> object:
        if not name.startswith("_") and "_values" in self.__dict__:
            if name not in self._values and name in BEAM_OPTIONS:
                self._values.update(ignored_values(self._flags) | self._values)
            if name in self._values:
                return self._values[name]
        raise AttributeError(f"{type(self).__name__} has no option {name!r}; declare it in _add_argparse_args")

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            self.__dict__[name] = value
            return
        if name not in self._values and name not in (names := self.names()) and name not in BEAM_OPTIONS:
            near = get_close_matches(name, names, 1)
            meant = f"; did you mean {near[0]!r}?" if near else "; declare it in _add_argparse_args"
            raise AttributeError(f"{type(self).__name__} has no option {name!r}{meant}")
        self._values[name] = value

    def __repr__(self) -> str:
        return hidden(f"{type(self).__name__}({self.display_data()})")


def option_classes(more: Collection[type[PipelineOptions]] = ()) -> list[type[PipelineOptions]]:
    """The subclasses of `PipelineOptions` that declare options, and those classes of `more` that do; each once."""
    found = dict.fromkeys((*subclasses(PipelineOptions), *more))
    return [kind for kind in found if _declares(kind)]


def _declares(kind: type[PipelineOptions]) -> bool:
    return "_add_argparse_args" in vars(kind) or bool(declared(kind))


def any_option(more: Collection[type[PipelineOptions]] = ()) -> Parser:
    """A parser that accepts every option declared by a subclass or by a class in `more`, with any value."""
    parser = Parser()
    for kind in option_classes(more):
        kind._add_argparse_args(parser)
    for action in parser._actions:
        action.required, action.type, action.choices = False, None, None
    for group in parser._mutually_exclusive_groups:
        group.required = False
    return parser


class StandardOptions(PipelineOptions):
    """Options of every runner: the choice of the runner, and `streaming`, which has no effect.

    >>> StandardOptions(["--runner=LocalRunner"]).runner
    'LocalRunner'
    """

    runner = Option(NAME, "LocalRunner or SparkRunner", "sdk/pipeline/pipeline.py")
    streaming = Option(SWITCH, "without effect; whether the input ends follows from the sources", "")


class TypeOptions(PipelineOptions):
    """Options of the checks while the pipeline is built and while it runs.

    >>> TypeOptions(["--runtime_type_check"]).runtime_type_check
    True
    """

    allow_unsafe_triggers = Option(
        SWITCH, "accept a trigger that can finish before its window", "sdk/transforms/core/group_by_key.py"
    )
    pipeline_type_check = Option(OFF_SWITCH, "build a pipeline even if type hints clash", "sdk/graph/build_checks.py")
    runtime_type_check = Option(SWITCH, "check elements against type hints during the run", "sdk/graph/build_checks.py")


class SetupOptions(PipelineOptions):
    """Options of how code reaches the workers.

    Functions of the main module are always sent together with everything that they use from this module.

    >>> SetupOptions(["--save_main_session"]).save_main_session
    True
    """

    save_main_session = Option(SWITCH, "without effect; the main module is always sent", "")


_RUNNERS = "runners/local/runner.py runners/spark/runner.py"
_RUN_OPTIONS = "runners/engine/options.py"


class EngineOptions(PipelineOptions):
    """Options of Headrace's own engine; times are in seconds.

    >>> options = EngineOptions(["--checkpoint=state", "--latency_aim=0.5"])
    >>> options.checkpoint, options.latency_aim
    ('state', 0.5)
    """

    checkpoint = Option(PLACE, "directory or URL that makes the run resumable", _RUNNERS)
    credentials = Option(
        NAME, "function, as module:function, that gives credentials of object stores and renews them", _RUNNERS
    )
    drain = Option(
        SWITCH,
        "end endless input at the last commit, finish all work, and end the run",
        "sdk/compiler/compiler.py sdk/pipeline/pipeline.py",
    )
    intervals = Option(COUNT, "number of key intervals at the start; if not given, the runner chooses", _RUNNERS)
    balance = Option(TWO_WAY_SWITCH, "split, merge and move key intervals as their load changes", _RUN_OPTIONS)
    cache_mb = Option(
        MEBIBYTES,
        "MiB of decoded state that a process may keep in memory; 0 for none",
        "runners/spark/runner.py",
        default=64,
    )
    max_records_per_epoch = Option(
        COUNT,
        "greatest number of records of a source in an epoch; if not given, a million, or more if epochs are quick",
        _RUN_OPTIONS,
    )
    latency_aim = Option(AIM, "seconds within which results are wanted; determines the size of epochs", _RUN_OPTIONS)
    one_task_epochs = Option(
        TWO_WAY_SWITCH, "run an epoch with little work in one Spark task", "runners/spark/runner.py"
    )
    task_idle_seconds = Option(
        SECONDS,
        "seconds that a Spark task for small epochs waits for the next one; with 0, each epoch is a job",
        "runners/spark/runner.py",
        default=60.0,
    )
    straggler_delay = Option(
        SECONDS,
        "seconds until rows that no sink has acknowledged become part of the commit",
        "runners/engine/driver/running_topology.py",
        default=1.0,
    )
    skew_limit = Option(
        SECONDS,
        "seconds of event time that one source may be ahead of another; no limit if not given",
        "runners/engine/driver/planning.py",
    )
    poll_seconds = Option(
        SECONDS, "seconds between two checks of idle input", "runners/engine/driver/planning.py", default=0.1
    )
    record = Option(
        LABELS_OR_ALL,
        "record the data for a picture of the run, of all groupings or of a step; may be repeated",
        "sdk/pipeline/runner_choice.py",
    )
    """True or an empty label to record all groupings; labels of steps to record the groupings inside these steps."""
    record_to = Option(
        FILE,
        "file (JSON) to which the recording is saved; implies `--record`",
        "headrace/cli/run.py sdk/pipeline/pipeline.py",
    )
    # For a pipeline that differs from the pipeline that made its checkpoint:
    allow_removed = Option(
        LABELS,
        "step that may be missing although the checkpoint has its state; the state is archived; may be repeated",
        _RUN_OPTIONS,
    )
    discard_stored = Option(
        LABELS,
        "step whose stored state is deleted if it is archived or no longer fits the program; may be repeated",
        _RUN_OPTIONS,
    )
    drop_pending = Option(LABELS, "step whose elements on their way may be dropped; may be repeated", _RUN_OPTIONS)
    progress = Option(
        FUNCTION,
        "function that is called after each commit; False for no display",
        "runners/engine/driver/driver.py sdk/pipeline/runner_choice.py",
    )
    """Function that is called after each commit with the engine's `Progress`.

    The option is given as a keyword, as no flag can name a function. If it is None, a notebook displays the progress;
    False turns the display off.
    """


def progress_of(options: PipelineOptions) -> Callable[..., None] | None:
    """The function of the options that is called with the figures of each epoch; None if there is none."""
    progress = options.view_as(EngineOptions).progress
    return None if isinstance(progress, bool) else progress


def checkpoint_of(options: PipelineOptions) -> str | None:
    """The location of the run's checkpoint: the option, else HEADRACE_CHECKPOINT; None if neither is given."""
    given = options.view_as(EngineOptions).checkpoint
    return os.environ.get("HEADRACE_CHECKPOINT") or None if given is None else given


# Classes under Beam's names for options that have no effect in Headrace: any view of options has their values.


class AzureOptions(PipelineOptions):
    """Options of Azure's storage, without effect."""


class CrossLanguageOptions(PipelineOptions):
    """Options of transforms in other languages, without effect: only Python runs here."""


class DebugOptions(PipelineOptions):
    """Options such as `experiments`, without effect."""

    experiments: list[str] | None

    def add_experiment(self, experiment: str) -> None:
        """Append to `experiments`."""
        self.experiments = [*(self.experiments or []), experiment]

    def lookup_experiment(self, key: str, default: object = None) -> object:
        """The value of an experiment `key=value`, True for `key` alone, and the default if there is none."""
        for experiment in reversed(self.experiments or []):
            name, equals, value = experiment.partition("=")
            if name == key:
                return value if equals else True
        return default


class DirectOptions(PipelineOptions):
    """Options of Beam's direct runner, without effect."""


class FlinkRunnerOptions(PipelineOptions):
    """Options of Beam's runner on Flink, without effect."""


class GoogleCloudOptions(PipelineOptions):
    """Options of Google Cloud, such as `project`, without effect."""


class HadoopFileSystemOptions(PipelineOptions):
    """Options of HDFS, without effect."""


class PortableOptions(PipelineOptions):
    """Options of job servers, without effect: there is none."""


class ProfilingOptions(PipelineOptions):
    """Options of profilers, without effect."""


class S3Options(PipelineOptions):
    """Options of Amazon S3, without effect: docs/connectors.md says where its credentials are taken from."""


class SparkRunnerOptions(PipelineOptions):
    """Options of Beam's runner on Spark, without effect: the active session of Spark is used."""


class StreamingOptions(PipelineOptions):
    """Options of streaming jobs, without effect."""


class TestOptions(PipelineOptions):
    """Options of tests, without effect."""

    # pytest would collect a class with this name.
    __test__ = False


class WorkerOptions(PipelineOptions):
    """Options of workers in a cloud, without effect: workers are Spark's."""
