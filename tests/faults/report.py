"""The figures of a run of the fault suite: `python -m tests.faults.report FIGURES [--write]`.

pytest collects the tests' tallies in the file that HEADRACE_FAULTS_REPORT names; this prints them row by row, and with
`--write` takes them over into `docs/reliability.json` and the two pages that show them. Ends with 1 if something did
not pass.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from tests.faults.figures import Figure, load, save
from tests.faults.rows import ROWS
from tests.faults.tally import CONNECTOR

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = DOCS / "reliability.json"
PAGE, DETAILS = DOCS / "reliability.md", DOCS / "internals" / "faults.md"
"""The page with the tables, for users, and the one with every test."""
BEGIN, END = "<!-- from here on made by python -m tests.faults.report -->", "<!-- to here -->"
_CONNECTORS = """\
By connector. A *driver* dies in memory, except on Spark; a *process* and a *reader* get SIGKILL. Lost and duplicated
rows are those of the whole test."""
RECOVERY_SECONDS = 60
"""What a recovery may take."""
_HEAD = ["#", "fault", "planned", "fired", "lost", "duplicated", "slowest recovery", "passed"]


def cells(number: int, figures: list[Figure]) -> list[str]:
    """One row of the table."""
    slowest = max((figure.recovery_seconds for figure in figures), default=0.0)
    sums = [sum(getattr(figure, name) for figure in figures) for name in ("planned", "fired", "lost", "duplicated")]
    return [
        str(number),
        ROWS[number].fault,
        *(f"{value:,}" if figures else "-" for value in sums),
        f"{slowest:.1f} s" if slowest else "-",
        verdict(figures),
    ]


def verdict(figures: Iterable[Figure]) -> str:
    """Whether all tests of a row passed, at which depth."""
    figures = list(figures)
    if not figures:
        return "-"
    if not all(figure.passed for figure in figures):
        return "**no**"
    if any(figure.recovery_seconds > RECOVERY_SECONDS for figure in figures):
        return "**too slow**"
    depths = {figure.depth for figure in figures}
    return "yes" if depths == {"full"} else "yes, at less than full depth"


def table(figures: list[Figure]) -> str:
    """All rows as a table in Markdown."""
    lines = [_HEAD, ["---"] * len(_HEAD)]
    lines += [cells(number, [figure for figure in figures if figure.row == number]) for number in sorted(ROWS)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def connectors(figures: list[Figure]) -> str:
    """What each connector has gone through, as a table in Markdown."""
    lines = [["connector", "fault", "fired", "lost", "duplicated"], ["---"] * 5]
    for figure in figures:
        test = figure.test.rpartition("::test_")[2].replace("_", " ")
        lines += [
            [name.removeprefix(CONNECTOR), test, f"{fired:,}", str(figure.lost), str(figure.duplicated)]
            for name, fired in figure.notes.items()
            if name.startswith(CONNECTOR)
        ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [*lines[:2], *sorted(lines[2:])])


def section(number: int, figures: list[Figure]) -> str:
    """What is done for one row, by which tests, and what each of them saw."""
    row = ROWS[number]
    tests = [f"- `{figure.test}`: {_told(figure)}" for figure in figures if figure.row == number]
    tests += [f"- `{test}`" for test in row.further]
    paragraphs = [f"### {number}. {row.fault[0].upper()}{row.fault[1:]}", row.how, f"Passes when: {row.passes}."]
    return "\n\n".join(paragraph for paragraph in [*paragraphs, "\n".join(tests)] if paragraph)


def _told(figure: Figure) -> str:
    told = [f"{figure.planned:,} planned, {figure.fired:,} fired, {figure.lost} lost, {figure.duplicated} duplicated"]
    if figure.recovery_seconds:
        told.append(f"slowest recovery {figure.recovery_seconds:.1f} s")
    told += [f"{name} {number:,}" for name, number in sorted(figure.notes.items())]
    depth = figure.depth if figure.depth in ("quick", "full") else f"{figure.depth} × quick"
    return "; ".join([*told, f"{depth} depth"])


def pages(figures: list[Figure]) -> dict[Path, str]:
    """Both pages with their made parts made again."""
    tables = [table(figures), _CONNECTORS, connectors(figures)]
    return {PAGE: _made(PAGE, tables), DETAILS: _made(DETAILS, [section(number, figures) for number in sorted(ROWS)])}


def _made(page: Path, parts: list[str]) -> str:
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{after}"


def write(figures: list[Figure]) -> None:
    """Take figures over into the documents; a test's new ones replace its old ones."""
    known = {(figure.test, figure.row): figure for figure in load(FIGURES)}
    known |= {(figure.test, figure.row): figure for figure in figures}
    save(FIGURES, known.values())
    for page, text in pages(load(FIGURES)).items():
        page.write_text(text, encoding="utf-8")


def main(source: str, *options: str) -> int:
    figures = load(Path(source))
    print(table(figures))
    if "--write" in options:
        write(figures)
    return 1 if any(verdict([figure]).startswith("**") for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
