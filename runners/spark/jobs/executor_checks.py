"""What must hold on the executors of a cluster: one task is asked before anything is read.

Two questions: whether the executors see the checkpoint as the driver does, and can keep state stores; and, where the
session takes no files, whether they have headrace and the program's modules installed. A sentence says what is lacking.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from tempfile import TemporaryFile
from typing import NamedTuple, cast

import cloudpickle
import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.lowlevel.class_lookup import loading_program
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import ObjectStorage
from headrace.lowlevel.storage.signed_store import carried
from headrace.runners.engine.messages import DRIVER, MessageKind, pack, unpack
from headrace.runners.spark.errors import SparkSetupError
from headrace.runners.spark.jobs.epoch_job import run_plan
from headrace.runners.spark.jobs.job_error import SparkJobError
from headrace.runners.spark.jobs.stage_function import SCHEMA, batches_of
from headrace.runners.spark.statestore.store_cache import ROOT_VARIABLE, stores_root

_log = logging.getLogger(__name__)
_NOTHING = "nothing has been read"


class Reached(NamedTuple):
    """What a task finds of the checkpoint."""

    lease: bytes | None = None
    """The driver's lease; None if the task does not see it."""
    unreadable: str = ""
    """Why the checkpoint cannot be read, if so."""
    no_stores: str = ""
    """Why state stores cannot be written, if so."""


@dataclass(frozen=True, slots=True)
class _Reach:
    """The function of a job of one task."""

    store: bytes
    name: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            continue
        found = self._reached()
        yield from batches_of([(0, DRIVER, MessageKind.REPORT, pack(tuple(found)))])

    def _reached(self) -> Reached:
        try:
            # A store may ask a function of the program for credentials.
            with loading_program():
                store: ObjectStorage = cloudpickle.loads(self.store)
        except Exception as error:
            return Reached(None, _words(error))
        return reached(store, self.name)


def reached(store: ObjectStorage, name: str) -> Reached:
    """What this process finds: an object of the store, and a folder for state stores."""
    no_stores = ""
    try:
        root = stores_root()
        root.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=root).close()
    except Exception as error:
        no_stores = _words(error)
    try:
        return Reached(store.get(name), no_stores=no_stores)
    except Exception as error:
        return Reached(None, _words(error), no_stores)


def require_reached(session: SparkSession, store: ObjectStorage, generation: int) -> None:
    """Raise `SparkSetupError` if a task does not see the checkpoint that this driver has just opened."""
    name = object_names.lease(generation)
    plan = session.range(0, 1, 1, 1).mapInArrow(_Reach(cloudpickle.dumps(carried(store)), name), SCHEMA)
    (message,) = run_plan(plan, "the check of the executors")
    complaint = complaint_of(Reached(*cast("tuple[bytes | None, str, str]", unpack(message[3]))), store, name)
    if complaint:
        raise SparkSetupError(complaint)


def complaint_of(found: Reached, store: ObjectStorage, name: str) -> str:
    """The sentence about what a task has found; empty if all is well."""
    place = store.describe()
    if found.unreadable:
        return (
            f"the executors cannot read the checkpoint {place}: {found.unreadable}; they need the network and "
            f"credentials for it, or a folder that driver and executors share; {_NOTHING}"
        )
    if found.lease != store.get(name):
        return (
            f"the executors do not see the checkpoint {place} of this program: the folder is not shared by "
            f"driver and executors; give a folder that all of them mount, or an object store; {_NOTHING}"
        )
    if found.no_stores:
        return (
            f"the executors have no folder for state stores: {found.no_stores}; name one that each of them can write "
            f"to, in {ROOT_VARIABLE} in their environment (spark.executorEnv.{ROOT_VARIABLE}); {_NOTHING}"
        )
    return ""


@dataclass(frozen=True, slots=True)
class _Installed:
    """The function of a job of one task: says which headrace is installed, and which modules are not."""

    modules: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            continue
        from headrace import __version__

        missing = [module for module in self.modules if find_spec(module) is None]
        yield from batches_of([(0, DRIVER, MessageKind.REPORT, pack((__version__, missing, os.getpid())))])


def require_installed(session: SparkSession, modules: Sequence[str], refusal: str) -> None:
    """Raise `SparkSetupError` if executors lack headrace or modules of the program, which cannot be sent to them.

    Args:
        session: The session that has refused.
        modules: Top-level modules and packages of the program.
        refusal: Why files cannot be sent.
    """
    from headrace import __version__

    why = f"the Spark session takes no files for its executors ({refusal})"
    try:
        plan = session.range(0, 1, 1, 1).mapInArrow(_Installed(tuple(modules)), SCHEMA)
        (message,) = run_plan(plan, "the check of the executors")
    except SparkJobError as error:
        if "No module named 'headrace" not in str(error):
            raise
        raise SparkSetupError(
            f"{why}, and their Python does not have headrace; install headrace=={__version__} in it, as a library of "
            f"the cluster or in its image; {_NOTHING}"
        ) from None
    version, missing, _ = cast("tuple[str, list[str], int]", unpack(message[3]))
    if version != __version__:
        raise SparkSetupError(
            f"{why}, and their Python has headrace {version}, but this program {__version__}; install the same "
            f"version in both; {_NOTHING}"
        )
    if missing:
        raise SparkSetupError(
            f"{why}, and their Python lacks modules of the program: {', '.join(sorted(missing))}; install them there, "
            f"or move what the pipeline uses into the main program, which is sent with the pipeline; {_NOTHING}"
        )
    _log.warning("%s; the tasks use headrace %s as it is installed there", why, version)


def _words(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
