"""What the page of a run costs the run: `python -m benchmarks.page`.

The same run in memory, with a checkpoint, in a process of its own: without a page, with a page that nobody looks at,
and with one that a client asks for everything once a second, as a browser does. There are two figures of each: the
processor time of the whole process, which a machine that does other things, too, spreads by some hundredths, and that
of the page's own threads, which the kernel counts exactly. What the run's own thread does for the page (a sample of
the figures a second) is timed apart, and so is the start of the server, which is once a run. The goal is less than a
hundredth of what the run takes.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Annotated
from urllib.parse import urlsplit

import typer

import headrace as beam
from benchmarks.report import console, print_table, rounded, save
from headrace.lowlevel.injectors.injector import BaseInjector, Batch, Delivery, MemorySplit
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.clock import SystemClock
from headrace.runners.engine.options import EpochProgress
from headrace.runners.local import LocalRunner
from headrace.sdk.transforms.core.low_level import Read
from headrace.transforms.window import FixedWindows
from headrace.ui import PageReporter

KINDS = ("no page", "nobody looks", "one client")
_KEYS, _SPAN = 1_000, 3_600_000_000
_EVERY_SECONDS, _SETTLE_SECONDS = 1.0, 0.5
Figures = dict[str, float]


class Events(BaseInjector):
    """So many events of a thousand keys, made when they are read."""

    max_delay = 1_000_000

    def __init__(self, total: int) -> None:
        self._total = total

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """See `Injector`."""
        assert isinstance(position, int)
        numbers = range(position, min(position + limit, self._total))
        values = [(number * 7919 % _KEYS, number) for number in numbers]
        batch = Batch(values, [number * _SPAN // self._total for number in numbers])
        return Delivery([MemorySplit(batch)], numbers.stop, done=numbers.stop == self._total)


def run(kind: str, events: int, epoch: int) -> Figures:
    """One run; the figures are seconds."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        page = None if kind == "no page" else PageReporter(checkpoint=f"{home}/state", title="benchmark")
        noting = _Noting(page)
        pipeline = _pipeline(events, f"{home}/state", epoch, noting)
        if page is None:
            return _measured(pipeline, noting)
        with page:
            time.sleep(_SETTLE_SECONDS)
            start = _of_threads()
            if kind == "one client":
                _start_client(page.address)
            return {**_measured(pipeline, noting), "start": start}


def _pipeline(events: int, place: str, epoch: int, noting: _Noting) -> beam.Pipeline:
    options = PipelineOptions(checkpoint=place, max_records_per_epoch=epoch, progress=noting)
    pipeline = beam.Pipeline(LocalRunner(SystemClock()), options)
    sums = (
        pipeline
        | "Events" >> Read(Events(events))
        | "Fields" >> beam.Map(lambda event: (event[0], event[1] % 100))
        | beam.WindowInto(FixedWindows(60))
        | "Sum" >> beam.CombinePerKey(sum)
    )
    _ = sums | "Best" >> beam.Map(lambda total: ("best", total[1])) | beam.CombinePerKey(max)
    return pipeline


class _Noting:
    """Passes the progress on, and counts the time that this takes the run."""

    def __init__(self, page: PageReporter | None) -> None:
        self._page = page
        self.epochs, self.seconds = 0, 0.0

    def __call__(self, progress: EpochProgress) -> None:
        self.epochs += 1
        if self._page is not None:
            began = time.thread_time()
            self._page(progress)
            self.seconds += time.thread_time() - began


def _measured(pipeline: beam.Pipeline, noting: _Noting) -> Figures:
    before, own, began = time.process_time(), _of_threads(), time.perf_counter()
    pipeline.run()
    return {
        "process": time.process_time() - before,
        "page's threads": _of_threads() - own,
        "notes": noting.seconds,
        "elapsed": time.perf_counter() - began,
        "epochs": noting.epochs,
    }


def _of_threads() -> float:
    """Processor time of the threads that serve the page, seconds. (Linux)"""
    return sum(_seconds(thread.native_id) for thread in threading.enumerate() if _serves(thread))


def _serves(thread: threading.Thread) -> bool:
    return thread.name.startswith(("headrace page", "AnyIO worker"))


def _seconds(thread: int | None) -> float:
    return int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[0]) / 1e9


def _start_client(address: str) -> None:
    """A process that asks as a browser does: the page and the graph once, then for news every second."""
    client = subprocess.Popen([sys.executable, "-c", _CLIENT, address, str(_EVERY_SECONDS)], stdout=subprocess.PIPE)
    assert client.stdout is not None
    client.stdout.readline()


_CLIENT = f"from {__spec__.name if __spec__ else 'benchmarks.page'} import look; import sys; look(*sys.argv[1:])"


def look(address: str, every: str) -> None:
    """Look at a page until it has gone."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port)
    versions = ""
    try:
        for path in _asked():
            connection.request("GET", path.format(versions))
            answer = connection.getresponse().read()
            if path.startswith("/live"):
                print("looking", flush=True)
                versions = ",".join(each["version"] for each in json.loads(answer)["pipelines"])
                time.sleep(float(every))
    except (OSError, http.client.HTTPException):
        return


def _asked() -> Iterator[str]:
    yield from ("/", "/page.css", "/page.js", "/pipeline.js", "/charts.js")
    yield "/live.json?known={}"
    yield "/pipelines/0/graph.json"
    while True:
        yield "/live.json?known={}"


def main(
    events: Annotated[int, typer.Option(help="records of a run")] = 15_000_000,
    epoch: Annotated[int, typer.Option(help="records of an epoch")] = 20_000,
    runs: Annotated[int, typer.Option(min=1, help="rounds")] = 5,
    kind: Annotated[str, typer.Option(hidden=True)] = "",
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/page.json"),
) -> None:
    """Run all kinds by turns, and compare."""
    if kind:
        print(json.dumps(run(kind, events, epoch)))
        return
    measured: dict[str, list[Figures]] = {each: [] for each in KINDS}
    for number in range(runs):
        for each in KINDS if number % 2 == 0 else reversed(KINDS):
            arguments = ["--kind", each, "--events", str(events), "--epoch", str(epoch)]
            ran = subprocess.run([sys.executable, "-m", "benchmarks.page", *arguments], capture_output=True, check=True)
            measured[each].append(json.loads(ran.stdout.splitlines()[-1]))
            console.print(f"{each}: {measured[each][-1]}")
    _print(measured, events, runs)
    save(output, {"benchmark": "page", "events": events, "epoch": epoch, "figures": measured})


def _print(measured: dict[str, list[Figures]], events: int, runs: int) -> None:
    base = median(figures["process"] for figures in measured["no page"])
    rows = []
    for each, those in measured.items():
        its = {name: median(figures.get(name, 0.0) for figures in those) for name in (*those[0], "start")}
        mine = its["page's threads"] + its["notes"]
        milliseconds = [1000 * its[name] for name in ("start", "page's threads", "notes")]
        shares = [f"{100 * mine / its['process']:.3f} %", f"{100 * mine / its['elapsed']:.3f} %"]
        beside = f"{100 * (its['process'] / base - 1):+.1f} %"
        rows.append([each, rounded(its["process"]), beside, *map(rounded, milliseconds), *shares])
    columns = [
        "medians",
        "process, s",
        "beside no page",
        "start, ms",
        "threads, ms",
        "notes, ms",
        "of process",
        "of a core",
    ]
    print_table(f"The page of a run of {events:,} records, {runs} rounds", columns, rows)


if __name__ == "__main__":
    typer.run(main)
