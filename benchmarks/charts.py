"""The pictures and the table at the head of `docs/performance.md`: `python -m benchmarks.charts`.

Both are made of `published.json`, which has each figure once, with its unit, its run, and where the log says more.
`--measured FOLDER` first takes newer figures from what benchmarks have saved there; then their runs' conditions
have to be written anew by hand. Each picture is written twice, for light and for dark pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple
from xml.etree.ElementTree import Element, tostring

import typer

from benchmarks.report import console
from headrace.sdk.visualization.plots import style
from headrace.sdk.visualization.plots.drawing import element, polyline, text_element

ROOT = Path(__file__).parents[1]
PUBLISHED = Path(__file__).with_name("published.json")
PAGE = ROOT / "docs" / "performance.md"
PICTURES = ROOT / "docs" / "pictures"
_FIRST, _LAST = "| what is measured |", "\n\n"
"""How the table on the page begins, and what ends it."""

WIDTH, LEFT, RIGHT, ROW, BAR = 760.0, 250.0, 80.0, 22.0, 15.0
"""Pixels: width of a picture, room for names and for numbers, height of a row and of its bar."""


class Theme(NamedTuple):
    """Colours of a picture."""

    paper: str
    ink: str
    dim: str
    columns: str
    functions: str
    others: str


THEMES = {
    "light": Theme(style.PAPER, style.INK, "#5c5c5c", style.BLUE, style.SKY, "#a3a3a3"),
    "dark": Theme("#1a2027", "#e4e8ee", "#a2adba", "#7cbcf5", "#3f7fb5", "#6f7a86"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One system in one measurement."""

    what: str
    unit: str
    system: str
    bounded: float | str | None
    streamed: float | str | None
    """A text is a range."""
    run: str
    """Letter of the run, whose rows may be compared with each other."""
    source: str
    """Where the figure stands in `LOG.md`."""
    measured: dict[str, list[str]]
    """`bounded` or `streamed` -> the file of a benchmark, and the keys that lead to the figure in it."""
    factor: float = 1.0
    """The figure in that file times this is the figure here."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars that may be compared: what is measured, and its column."""

    heading: str
    what: str | tuple[str, ...]
    """Several where each has one bar, which is named after what stands behind "of"."""
    column: str
    unit: str
    system: str | None = None
    """Only of this system."""
    base: str | None = None
    """What takes 1 by the unit's definition, for a bar of its own."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with one question."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    reference: bool = False
    """Whether a line at 1 says what the bars are beside."""


def _throughput(column: str) -> tuple[Panel, ...]:
    unit = "thousand events a second"
    names = ("sums in minutes", "counts in sessions", "raw state and timers, when the machine was faster")
    headings = (
        "Sums in minutes",
        "Counts in sessions",
        "Raw state and timers (another run, when the machine was faster)",
    )
    return tuple(Panel(heading, name, column, unit) for heading, name in zip(headings, names, strict=True))


_RECORD = "record to result at 1,000 records a second"
_MEMORY = "memory of two Python workers"
_COLUMNS = "Headrace, by columns"
_STRONG = "Headrace, strong productions"
_TYPES = ("float64", "decimal", "nullable int64", "nullable float64", "date", "text")
CHARTS = (
    Chart(
        "bounded",
        "How fast is a bounded input processed?",
        (
            *_throughput("bounded"),
            Panel("Sums in minutes, 10⁷ events: less is better", "sums in minutes, 10⁷ events", "bounded", "seconds"),
        ),
    ),
    Chart("streamed", "How fast is a stream processed, in durable epochs of 50,000 events?", _throughput("streamed")),
    Chart(
        "latency",
        "How long does a record take to its result, at 1,000 records a second?",
        tuple(
            Panel(heading, f"{_RECORD}, {heading[0].lower()}{heading[1:]}", "streamed", unit, base=base)
            for unit, base in (("ms", None), (f"times {_STRONG}", _STRONG))
            for heading in ("Median", "95th percentile")
        ),
    ),
    Chart(
        "memory",
        "How much memory do two Python workers take for 10⁷ events?",
        tuple(
            Panel(f"{what.capitalize()}, {column}", f"{_MEMORY}, {what}", column, "MiB")
            for column in ("bounded", "streamed")
            for what in ("sums in minutes", "raw state and timers")
        ),
    ),
    Chart(
        "types",
        "How much longer do values of other types take than int64?",
        tuple(
            Panel(
                f"{heading}, {column}",
                tuple(f"{what} of {kind}" for kind in _TYPES),
                column,
                "times the time of int64",
                _COLUMNS,
            )
            for heading, what in (("Sums in minutes by columns", "sum"), ("Maxima in minutes by columns", "max"))
            for column in ("bounded", "streamed")
        ),
        reference=True,
    ),
)


def published(path: Path = PUBLISHED) -> tuple[dict[str, dict[str, str]], list[Figure]]:
    """The runs by their letters, and the figures in the order of the table."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return found["runs"], [Figure(**{"measured": {}, **each}) for each in found["figures"]]


# --- Pictures ---------------------------------------------------------------------------------------------------------


class Bar(NamedTuple):
    """A bar of a panel."""

    name: str
    system: str
    length: float
    run: str


def picture(chart: Chart, figures: Sequence[Figure], theme: Theme) -> str:
    """An SVG file; equal figures give equal files. Panels of one unit and run have one scale."""
    parts = [text_element(chart.title, 16.0, 28.0, 16.0, font_weight="bold", fill=theme.ink)]
    top = 44.0
    panels = [(panel, _bars(panel, figures)) for panel in chart.panels]
    for panel, bars in panels:
        alike = [other for like, other in panels if (like.unit, other[0].run) == (panel.unit, bars[0].run)]
        longest = max(bar.length for other in alike for bar in other)
        parts += _panel(panel, bars, longest, top, chart.reference, theme)
        top += 2 * ROW + ROW * len(bars)
    paper = element("rect", width="100%", height="100%", fill=theme.paper)
    height = top + 10
    whole = element(
        "svg", element("title", chart.title), paper, *parts, xmlns="http://www.w3.org/2000/svg", role="img",
        viewBox=f"0 0 {WIDTH:g} {height:g}", width=WIDTH, height=height, font_family=style.FAMILY,
    )  # fmt: skip
    return tostring(whole, encoding="unicode") + "\n"


def _bars(panel: Panel, figures: Sequence[Figure]) -> list[Bar]:
    """Raises ValueError if a figure is no number, or if there is none."""
    several = not isinstance(panel.what, str)
    names = panel.what if several else (panel.what,)
    found = []
    for each in figures:
        value = each.bounded if panel.column == "bounded" else each.streamed
        if each.what in names and each.unit == panel.unit and panel.system in (None, each.system) and value is not None:
            if isinstance(value, str):
                raise ValueError(f"{each.what}, {each.system}: {value!r} is no number; leave it out of {panel}")
            name = each.what.rpartition(" of ")[2] if several else each.system.replace("`", "")
            found.append(Bar(name, each.system, value, each.run))
    if not found:
        raise ValueError(f"no published figure belongs to {panel}; correct its names")
    return [Bar(panel.base, panel.base, 1, found[0].run), *found] if panel.base else found


def _panel(
    panel: Panel, bars: Sequence[Bar], longest: float, top: float, reference: bool, theme: Theme
) -> Iterator[Element]:
    scale = (WIDTH - LEFT - RIGHT) / longest
    yield text_element(panel.heading, 16.0, top + 20, 13.0, font_weight="bold", fill=theme.ink)
    yield text_element(panel.unit, WIDTH - 16, top + 20, 12.0, text_anchor="end", fill=theme.dim)
    for number, bar in enumerate(bars):
        middle = top + ROW * (number + 1.75)
        ours = theme.columns if bar.system == _COLUMNS else theme.functions
        colour = ours if "Headrace" in bar.system else theme.others
        end = LEFT + scale * bar.length
        # A number does not stand on the line.
        after = max(end, LEFT + scale) if reference else end
        yield text_element(bar.name, LEFT - 8, middle + 4, 12.0, text_anchor="end", fill=theme.ink)
        yield element("rect", x=LEFT, y=middle - BAR / 2, width=max(1.0, end - LEFT), height=BAR, fill=colour)
        yield text_element(number_text(bar.length), after + 6, middle + 4, 12.0, fill=theme.ink)
    if reference:
        x, bottom = LEFT + scale, top + ROW * (len(bars) + 1.25)
        yield polyline([(x, top + ROW * 1.25), (x, bottom)], stroke=theme.ink, stroke_width=1, stroke_dasharray="3 2")


# --- The table --------------------------------------------------------------------------------------------------------


def number_text(value: float | str | None) -> str:
    """As in the table; a dash where there is none.

    >>> number_text(1841), number_text(0.95), number_text("1.02 to 1.10"), number_text(None)
    ('1,841', '0.95', '1.02 to 1.10', '–')
    """
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:,}"


def table(figures: Sequence[Figure]) -> str:
    """The figures as a table of Markdown, without what only repeats the line above."""
    lines = [f"{_FIRST} unit | system | bounded | streamed | run |", "|---|---|---|---:|---:|---|"]
    what = unit = ""
    for each in figures:
        named = "" if each.what == what else each.what
        measure = each.unit if named or each.unit != unit else ""
        what, unit = each.what, each.unit
        numbers = number_text(each.bounded), number_text(each.streamed)
        lines.append(f"| {' | '.join([named, measure, each.system, *numbers, each.run])} |")
    return "\n".join(lines)


def runs_table(runs: dict[str, dict[str, str]]) -> str:
    """The conditions of each run, and what repeats it."""
    lines = ["| run | command, behind `python -m` | conditions |", "|---|---|---|"]
    lines += [f"| {letter} | `benchmarks.{run['command']}` | {run['conditions']} |" for letter, run in runs.items()]
    return "\n".join(lines)


def with_tables(page: str, tables: Sequence[str]) -> str:
    """The page with these tables in the place of those that begin as they do."""
    for each in tables:
        heading = each.partition("\n")[0]
        before, begins, rest = page.partition(heading)
        if not begins:
            raise ValueError(f"the page has no table with the line {heading!r}; put that line where it should be")
        page = before + each + _LAST + rest.partition(_LAST)[2]
    return page


# --- Newer figures ----------------------------------------------------------------------------------------------------


def taken_over(found: dict[str, Any], folder: Path) -> list[str]:
    """Put what benchmarks have saved in a folder in the place of what was published; returns what has changed."""
    changed = []
    for figure in found["figures"]:
        for column, (file, *keys) in figure.get("measured", {}).items():
            value = _measured(folder / file, keys)
            if value is not None:
                figure[column] = _brief(value * figure.get("factor", 1.0))
                changed.append(f"{figure['what']}, {figure['system']}, {column}: {figure[column]}")
    return changed


def _measured(path: Path, keys: Sequence[str]) -> float | None:
    """The figure, the median of several; None where that was not measured."""
    value: Any = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for key in keys:
        value = value.get(key, {})
    if isinstance(value, list):
        return median(value) if value else None
    return value if isinstance(value, int | float) else None


def _brief(value: float) -> float:
    """Three digits, whole from a hundred on."""
    return round(value) if value >= 100 else float(f"{value:.3g}")


def main(
    measured: Annotated[Path | None, typer.Option(help="take newer figures from the files in this folder")] = None,
) -> None:
    """Draw the pictures and write the table."""
    if measured is not None:
        found = json.loads(PUBLISHED.read_text(encoding="utf-8"))
        for line in taken_over(found, measured):
            console.print(line)
        PUBLISHED.write_text(_one_a_line(found), encoding="utf-8")
    runs, figures = published()
    for chart in CHARTS:
        for name, theme in THEMES.items():
            (PICTURES / f"performance-{chart.name}-{name}.svg").write_text(
                picture(chart, figures, theme), encoding="utf-8"
            )
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_tables(page, [table(figures), runs_table(runs)]), encoding="utf-8")


def _one_a_line(found: dict[str, Any]) -> str:
    runs = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(run, ensure_ascii=False)}" for name, run in found["runs"].items()
    )
    figures = ",\n".join(f"  {json.dumps(each, ensure_ascii=False)}" for each in found["figures"])
    return f'{{\n "runs": {{\n{runs}\n }},\n "figures": [\n{figures}\n ]\n}}\n'


if __name__ == "__main__":
    typer.run(main)
