"""The figures of Streaming 102 and of the MillWheel paper, from real runs of ours: `python -m examples.gallery`.

Figures 2 to 17 of the article are runs of `examples/streaming102` in memory, recorded and drawn by `headrace.plot`: as
SVG, as PNG, and as a page that plays. Figures 13 to 16 of the paper (`gallery_millwheel.py`) are what the benchmarks
have measured on this machine; with `--measure` those that were not run yet are run first. Needs matplotlib:
`pip install 'headrace[plot]'`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

import headrace as beam
from examples import gallery_millwheel
from examples.gallery_windows import Row, draw_windows
from examples.streaming102 import (
    accumulating_and_retracting,
    allowed_lateness,
    classic_batch,
    discarding,
    early_and_late,
    fixed_windows_batch,
    fixed_windows_streaming,
    processing_time_by_ingress,
    processing_time_by_triggers,
    sessions,
)
from examples.streaming102.panes import Build
from examples.streaming102.scores import (
    BOUNDED,
    FIRST,
    HEURISTIC,
    MINUTE,
    PERFECT,
    SCORES,
    SECOND,
    WITH_SIX,
    Input,
    at,
    of_ingress,
    of_lines,
)
from headrace import plot
from headrace.options.pipeline_options import PipelineOptions
from headrace.recording import StepRecording
from headrace.transforms.window import (
    FixedWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)

TEAMS = {
    "red": {score.happened: score.points for score in SCORES},
    "blue": {at("12:00:20"): 4, at("12:01:10"): 6, at("12:04:30"): 2, at("12:05:20"): 7, at("12:06:15"): 5},
    "green": {at("12:02:15"): 1, at("12:03:20"): 9, at("12:06:05"): 8},
}
"""Points by when they were won, for the one figure of the article with three keys; the red team's are the article's."""
READ = replace(BOUNDED, watermark=lambda now, to_come: 0)
"""The scores as a batch job reads them: nothing is known to be complete before the end of the input."""


@dataclass(frozen=True, slots=True)
class Made:
    """A figure of the gallery, or why there is none."""

    name: str
    title: str
    remark: str
    files: tuple[str, ...] = ()
    """The picture first, as SVG; then other forms of it."""


class ProtoSessions(NonMergingWindowFn):
    """The window that each element would be a session of by itself, before sessions are merged."""

    def assign(self, context: WindowFn.AssignContext) -> list[IntervalWindow]:
        """A minute from the element on."""
        return [IntervalWindow(context.timestamp, context.timestamp + MINUTE)]


def recorded(build: Build, given: Input) -> StepRecording:
    """A run of an example."""
    # A sum over all of time has a result when its input has ended, which Beam calls unsafe for what might not end.
    pipeline = beam.Pipeline("LocalRunner", PipelineOptions(["--allow_unsafe_triggers"]), record=True)
    build(pipeline | given.source())
    return pipeline.run().recording.step()


def windowed(window_fn: WindowFn) -> StepRecording:
    """A run that sums the scores in windows, one pane each."""

    def build(scores: beam.PCollection[tuple[str, int]]) -> beam.PCollection[object]:
        return scores | beam.WindowInto(window_fn) | beam.CombinePerKey(sum)

    return recorded(build, READ)


def of_teams(window_fn: WindowFn) -> StepRecording:
    """A run that sums the scores of each team in windows."""
    pipeline = beam.Pipeline("LocalRunner", record=True)
    scores = [TimestampedValue((team, won), when) for team, its in TEAMS.items() for when, won in sorted(its.items())]
    given = pipeline | beam.Create(scores) | beam.Map(lambda score: score)
    given | beam.WindowInto(window_fn) | beam.CombinePerKey(sum)
    return pipeline.run().recording.step()


Panels = list[tuple[str, StepRecording]]
"""What is drawn side by side, by title."""


Figure = tuple[int, str, str, Callable[[], Panels]]
"""Number, title, what it shows, and the runs to draw."""


def panels() -> Iterator[Figure]:
    """The figures of the article that are drawn from runs."""
    yield from _what_where_when()
    yield from _lateness_and_how()
    yield from _orders_of_arrival()


def _of(*parts: tuple[str, Build, Input]) -> Callable[[], Panels]:
    return lambda: [(title, recorded(build, given)) for title, build, given in parts]


def _inputs(*parts: tuple[str, Input]) -> Callable[[], Panels]:
    """Without what comes of them."""
    runs = _of(*((title, fixed_windows_streaming.build, given) for title, given in parts))
    return lambda: [(title, replace(step, panes=(), dropped=0)) for title, step in runs()]


def _what_where_when() -> Iterator[Figure]:
    yield (
        2,
        "Classic batch",
        "One sum, when everything has been read.",
        _of(("Sum of all", classic_batch.build, of_lines(READ))),
    )
    yield (
        4,
        "Windows on a batch engine",
        "A sum for every two minutes, when everything has been read.",
        _of(("Fixed windows, batch", fixed_windows_batch.build, READ)),
    )
    yield (
        5,
        "Watermarks",
        "What the pipeline believes to be complete, and what is.",
        _inputs(("A watermark and the ideal one", HEURISTIC)),
    )
    yield (
        6,
        "Watermarks that are perfect, or a guess",
        "The perfect one is slow, the other loses the 9.",
        _of(
            ("Perfect watermark", fixed_windows_streaming.build, PERFECT),
            ("Heuristic watermark", fixed_windows_streaming.build, HEURISTIC),
        ),
    )
    yield (
        7,
        "Early and late firings",
        "Early panes each minute, a late one for the 9.",
        _of(
            ("Perfect watermark", early_and_late.build, PERFECT),
            ("Heuristic watermark", early_and_late.build, HEURISTIC),
        ),
    )


def _lateness_and_how() -> Iterator[Figure]:
    yield (
        8,
        "Allowed lateness",
        "The 6 is late by less than a minute, the 9 by more.",
        _of(
            ("Allowed lateness of a minute", allowed_lateness.build, WITH_SIX),
        ),
    )
    yield (
        9,
        "Discarding",
        "Each pane has what came since the one before.",
        _of(
            ("Discarding", discarding.build, HEURISTIC),
        ),
    )
    yield (
        10,
        "Accumulating and retracting",
        "Each pane takes the one before back.",
        _of(
            ("Accumulating and retracting", accumulating_and_retracting.build, HEURISTIC),
        ),
    )
    yield (
        11,
        "How refinements relate",
        "The same firings, three kinds of panes.",
        _of(
            ("Discarding", discarding.build, HEURISTIC),
            ("Accumulating", early_and_late.build, HEURISTIC),
            ("Accumulating and retracting", accumulating_and_retracting.build, HEURISTIC),
        ),
    )


def _orders_of_arrival() -> Iterator[Figure]:
    yield (
        12,
        "Two orders of arrival",
        "The same scores of the same times, heard of in another order.",
        _inputs(("First order of arrival", FIRST), ("Second order of arrival", SECOND)),
    )
    yield (
        13,
        "Windows in event time",
        "Other panes on the way, the same in the end.",
        _of(
            ("First order of arrival", early_and_late.build, HEURISTIC),
            ("Second order of arrival", early_and_late.build, SECOND),
        ),
    )
    yield (
        14,
        "Windows in processing time, by triggers",
        "Another order of arrival, other results.",
        _of(
            ("First order of arrival", processing_time_by_triggers.build, FIRST),
            ("Second order of arrival", processing_time_by_triggers.build, SECOND),
        ),
    )
    yield (
        15,
        "Windows in processing time, by time of ingress",
        "The same results as by triggers.",
        _of(
            ("First order of arrival", processing_time_by_ingress.build, of_lines(of_ingress(FIRST))),
            ("Second order of arrival", processing_time_by_ingress.build, of_lines(of_ingress(SECOND))),
        ),
    )
    yield (
        17,
        "Sessions with retractions",
        "What joins two sessions takes both back.",
        _of(("Sessions, gap of a minute", sessions.build, HEURISTIC)),
    )


def bars() -> Iterator[tuple[int, str, str, list[Row]]]:
    """Figure, title, what it shows, and the windows to draw."""
    yield (
        3,
        "Kinds of windows",
        "Fixed and sliding windows are the same for all keys, sessions are each key's own.",
        [
            Row("fixed: two minutes", of_teams(FixedWindows(2 * MINUTE))),
            Row("sliding: two minutes, every minute", of_teams(SlidingWindows(2 * MINUTE, MINUTE))),
            Row("sessions: a gap of a minute", of_teams(Sessions(MINUTE))),
        ],
    )
    yield (
        16,
        "Sessions are merged",
        "Windows of a minute from each score on, and sessions.",
        [
            Row("each by itself", windowed(ProtoSessions())),
            Row("merged", windowed(Sessions(MINUTE))),
        ],
    )


def article(folder: Path, wanted: Collection[int] = range(2, 18)) -> list[Made]:
    """Figures 2 to 17 of Streaming 102, or some of them."""
    made = {
        number: _played(folder, number, title, remark, run())
        for number, title, remark, run in panels()
        if number in wanted
    }
    for number, title, remark, rows in bars():
        if number in wanted:
            made[number] = _drawn(folder, number, title, remark, rows)
    return [made[number] for number in sorted(made)]


def _played(folder: Path, number: int, title: str, remark: str, drawn: Panels) -> Made:
    steps, titles = [step for _, step in drawn], [its for its, _ in drawn]
    stem = f"streaming102-{number:02}"
    for kind in ("svg", "png"):
        plot.save(steps, folder / f"{stem}.{kind}", title=titles)
    plot.html(steps, folder / f"{stem}.html", title=titles)
    files = tuple(f"{stem}.{kind}" for kind in ("svg", "png", "html"))
    return Made(f"Streaming 102, figure {number}", title, remark, files)


def _drawn(folder: Path, number: int, title: str, remark: str, rows: Sequence[Row]) -> Made:
    files = tuple(f"streaming102-{number:02}.{kind}" for kind in ("svg", "png"))
    draw_windows(rows, [folder / file for file in files])
    return Made(f"Streaming 102, figure {number}", title, remark, files)


def paper(folder: Path, measured: Path) -> Iterator[Made]:
    """Figures 13 to 16 of the MillWheel paper, as far as the benchmarks have been run."""
    for its in gallery_millwheel.FIGURES:
        files = tuple(f"millwheel-{its.number}.{kind}" for kind in ("svg", "png"))
        missing = its.draw(measured, [folder / file for file in files])
        remark = its.remark if missing is None else f"{missing}; make it with: {its.command}"
        yield Made(f"MillWheel, figure {its.number}", its.title, remark, () if missing else files)


def index(made: Sequence[Made]) -> str:
    """The page of the gallery."""
    parts = []
    for its in made:
        picture = "".join(
            f'<a href="{its.files[-1]}"><img src="{its.files[0]}" alt="{escape(its.title)}"></a>' for _ in its.files[:1]
        )
        links = " · ".join(
            f'<a href="{file}">{"play" if file.endswith("html") else file.rpartition(".")[2].upper()}</a>'
            for file in its.files[::-1]
        )
        parts.append(
            f"<figure>{picture}<figcaption><b>{escape(its.name)}: {escape(its.title)}.</b> {escape(its.remark)} {links}"
            "</figcaption></figure>"
        )
    return _PAGE.replace("FIGURES", "\n".join(parts))


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Gallery</title><style>
body { font-family: "DejaVu Sans", Verdana, Arial, sans-serif; color: #222; max-width: 96rem; margin: 1.5rem auto;
  padding: 0 1rem; }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(30rem, 100%), 1fr)); gap: 1.5rem; }
figure { margin: 0; border: 1px solid #ddd; border-radius: .5rem; padding: .8rem; display: flex; flex-direction: column;
  justify-content: space-between; }
img { width: 100%; height: 22rem; object-fit: contain; }
figcaption { font-size: .9rem; line-height: 1.4; }
</style></head><body>
<h1>Streaming 102 and MillWheel, from runs of Headrace</h1>
<p>Event time goes across, processing time up. A picture of the article leads to a page that plays it.</p>
<main>
FIGURES
</main></body></html>
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw everything, and say what is missing."""
    parser = argparse.ArgumentParser(description="Draw the figures of Streaming 102 and of the MillWheel paper.")
    parser.add_argument("--output", type=Path, default=Path("out/gallery"), help="the folder (default: out/gallery)")
    parser.add_argument("--measured", type=Path, default=Path("out/benchmarks"), help="what benchmarks have written")
    parser.add_argument("--measure", action="store_true", help="run benchmarks that have written nothing yet: minutes")
    parser.add_argument("--only", type=int, nargs="+", default=range(2, 18), help="figures of the article to draw")
    given = parser.parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    if given.measure:
        gallery_millwheel.measure(given.measured)
    made = [*article(given.output, given.only), *paper(given.output, given.measured)]
    (given.output / "index.html").write_text(index(made), encoding="utf-8")
    for its in made:
        print(f"{its.name}: {', '.join(its.files) or its.remark}")
    print(f"all of them: {given.output / 'index.html'}")


if __name__ == "__main__":
    main()
