"""After the run: read the panes back, account for every flight, compare with pandas, show what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

from examples import flights_check as check
from examples import flights_tables as tables

Counters = Mapping[str, Mapping[str, int]]
"""Step -> counter -> total, as the result of a run has them."""


@dataclass(frozen=True, slots=True)
class Question:
    """One of the pipeline's questions that pandas answers too."""

    name: str
    step: str
    """Label of the step that groups."""
    keys: list[str]
    values: list[str]
    reference: Callable[[pd.DataFrame, Sequence[int], check.Lateness], check.Expected]


HOURS = Question("delays by hour", "delays", check.HOUR_KEYS, check.HOUR_VALUES, check.hours)
SESSIONS = Question("sessions", "legs", check.SESSION_KEYS, check.SESSION_VALUES, check.sessions)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the run found, next to what pandas finds."""

    question: Question
    panes: pd.DataFrame
    final: pd.DataFrame
    """The last pane of each window."""
    records: int
    """Flights that the question is about."""
    dropped: int
    """Of these, as the run counted them, those that came after their window was closed."""
    expected: check.Expected
    differences: pd.DataFrame
    """Rows of final values that are not those of pandas."""

    @property
    def contributing(self) -> int:
        """Flights in the final values."""
        return int(self.final[self.question.values].iloc[:, 0].sum())

    @property
    def conserved(self) -> bool:
        """Whether every flight is in a final value or was counted as dropped."""
        return self.records == self.contributing + self.dropped

    @property
    def right(self) -> bool:
        """Whether the run found exactly what pandas finds, and lost nothing."""
        return self.conserved and self.differences.empty and self.dropped == self.expected.dropped


def answer(
    question: Question,
    panes: pd.DataFrame,
    replay: pd.DataFrame,
    counters: Counters,
    epoch_ends: Sequence[int],
    lateness: check.Lateness,
) -> Answer:
    """Hold one question's panes against pandas."""
    expected = question.reference(replay, epoch_ends, lateness)
    final = check.final(panes, question.keys)
    return Answer(
        question,
        panes,
        final,
        records=int(expected.values[question.values[0]].sum()) + expected.dropped,
        dropped=counted(counters, question.step, "dropped_late"),
        expected=expected,
        differences=check.differences(final, expected.values, question.keys, question.values),
    )


def counted(counters: Counters, step: str, counter: str) -> int:
    """A counter of a step, or of the steps that it is made of."""
    return sum(
        values.get(counter, 0) for name, values in counters.items() if name == step or name.startswith(f"{step}/")
    )


def summarize(
    console: Console,
    replay_path: Path,
    out: Path,
    counters: Counters,
    epoch_ends: Sequence[int],
    lateness: check.Lateness,
) -> bool:
    """Print everything; whether it is all right.

    Args:
        console: where to print.
        replay_path: the replay that the run read.
        out: folder with the panes in `hours`, `sessions` and `findings`.
        counters: of the run.
        epoch_ends: number of flights read by the end of each epoch.
        lateness: the run's settings.
    """
    replay = pd.read_parquet(replay_path)
    hours, sessions = (
        answer(question, pd.read_parquet(out / folder), replay, counters, epoch_ends, lateness)
        for question, folder in ((HOURS, "hours"), (SESSIONS, "sessions"))
    )
    console.print(tables.airports_table(hours.final))
    console.print(tables.panes_table(hours.panes, hours.final))
    console.print(tables.changed_table(hours.panes))
    console.print(tables.aircraft_table(sessions.final))
    if any((out / "findings").glob("*")):
        console.print(tables.findings_table(pd.read_parquet(out / "findings")))
    judged, dropped = (counted(counters, "usual", counter) for counter in ("judged", "dropped_late"))
    accounts = [(one.question.name, one.records, one.contributing, one.dropped) for one in (hours, sessions)]
    console.print(tables.conservation_table([*accounts, ("usual delay", len(replay), judged, dropped)]))
    return all([_say(console, hours), _say(console, sessions), len(replay) == judged + dropped])


def _say(console: Console, found: Answer) -> bool:
    """One line on how the run compares with pandas."""
    windows, name = f"{len(found.final):,}", found.question.name
    if found.right:
        console.print(f"[green]✓[/] {name}: all {windows} final values are exactly those of pandas")
        return True
    console.print(
        f"[red]✗[/] {name}: {len(found.differences):,} of {windows} final values are not those of pandas; "
        f"dropped {found.dropped:,}, expected {found.expected.dropped:,}"
    )
    console.print(found.differences.head(5).to_string())
    return False
