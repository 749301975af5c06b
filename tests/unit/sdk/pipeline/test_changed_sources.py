"""Sources that are changed between two runs of a program, in the middle of their input."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import headrace as beam
from headrace.lowlevel import StepError, TopologyChangeError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner, Scheduler
from headrace.sdk.transforms.core.create import CreateKnownBy


class Dies(Scheduler):
    """Ends the run at the third epoch."""

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("committed", 3):
            raise KeyboardInterrupt


def run(
    folder: Path, source: beam.PTransform, dies: bool = False, label: str = "Read", **others: object
) -> list[object]:
    options = PipelineOptions(checkpoint=f"{folder}/checkpoint", max_records_per_epoch=2, **others)
    found: list[object] = []
    try:
        with beam.Pipeline(LocalRunner(scheduler=Dies() if dies else None), options) as pipeline:
            _ = pipeline | label >> source | beam.io.ForeachEpoch(lambda epoch, rows: found.extend(rows))
    except KeyboardInterrupt:
        assert dies
    return [row[0] if isinstance(row, tuple) and len(row) == 2 else row for row in found]


@dataclass(frozen=True)
class Sale:
    product: str
    amount: int


ELEMENTS = {
    "numbers": list(range(20)),
    "rows": [beam.Row(product="tea", amount=number) for number in range(20)],
    "dataclasses": [Sale("tea", number) for number in range(20)],
    "sets": [({f"{number}", "a", "b"}, number) for number in range(20)],
}


@pytest.mark.parametrize("kind", ELEMENTS)
class TestCreate:
    def test_an_element_in_front_is_refused(self, tmp_path: Path, kind: str) -> None:
        """One element would be read twice, and the new one not at all."""
        elements = ELEMENTS[kind]
        run(tmp_path, beam.Create(elements), dies=True)
        with pytest.raises(StepError, match=r"'Read' raised.*(.|\n)*elements of Create were changed before element \d"):
            run(tmp_path, beam.Create([elements[-1], *elements]))
        with pytest.raises(StepError, match="Create were changed"):
            run(tmp_path, beam.Create(elements[1:]))

    def test_the_remedies_that_are_named_work(self, tmp_path: Path, kind: str) -> None:
        """Deleting what is stored was named, and did nothing, as the position still fits the step."""
        elements = ELEMENTS[kind]
        first = run(tmp_path, beam.Create(elements), dies=True)
        changed = [elements[-1], *elements]
        with pytest.raises(StepError, match=r"give the step another label, and start once with --allow_removed and"):
            run(tmp_path, beam.Create(changed))
        found = run(tmp_path, beam.Create(changed), label="All", allow_removed=["Read"])
        # Before them come the two of the epoch that was committed, and not delivered.
        assert found[2:] == run(tmp_path / "other", beam.Create(changed))
        rest = run(tmp_path, beam.Create(elements), allow_removed=["All"])
        assert len({*map(str, first + found[:2] + rest)}) == len(elements)

    def test_elements_at_the_end_are_read(self, tmp_path: Path, kind: str) -> None:
        elements = ELEMENTS[kind]
        first = run(tmp_path, beam.Create(elements[:10]), dies=True)
        rest = run(tmp_path, beam.Create(elements))
        assert 0 < len(first) < 10
        assert len({*map(str, first + rest)}) == len(elements)

    @pytest.mark.parametrize("edit", ["appended", "removed", "another"])
    def test_changes_after_the_end_are_refused(self, tmp_path: Path, kind: str, edit: str) -> None:
        """The old output was accepted without a word."""
        elements = ELEMENTS[kind]
        run(tmp_path, beam.Create(elements[:-1]))
        delivered_again = run(tmp_path, beam.Create(elements[:-1]))
        others = {"appended": elements, "removed": elements[:5], "another": [elements[-1], *elements[1:-1]]}[edit]
        counted = "elements are no longer those" if edit == "another" else f"and is {len(others)} now"
        if edit == "another" and kind == "sets":
            others = [(0, 0), *others[1:]]
        with pytest.raises(StepError, match=rf"'Read' raised; the run was finished (.|\n)*{counted}(.|\n)*checkpoint"):
            run(tmp_path, beam.Create(others))
        assert run(tmp_path, beam.Create(elements[:-1])) == delivered_again


@pytest.mark.parametrize("rule", ["a", "b"])
def test_changes_after_the_end_of_one_source_are_said_while_others_go_on(tmp_path: Path, caplog, rule: str) -> None:
    def both(rules: list[str], stop: int | None) -> list[object]:
        found: list[object] = []
        options = PipelineOptions(checkpoint=f"{tmp_path}/checkpoint", max_records_per_epoch=2)
        with suppress(KeyboardInterrupt), beam.Pipeline(LocalRunner(scheduler=Dies()), options) as pipeline:
            read = pipeline | "Rules" >> beam.Create(rules), pipeline | "Numbers" >> beam.io.GenerateSequence(0, stop)
            _ = read | beam.Flatten() | beam.io.ForeachEpoch(lambda epoch, rows: found.extend(rows))
        return found

    both(["a"], 10)
    both([rule], 12)
    said = [record.getMessage() for record in caplog.records]
    text = "step 'Rules': its elements are no longer those that it had when its input ended. Nothing more of it is"
    assert [message[: len(text)] for message in said] == ([] if rule == "a" else [text])


def test_a_checkpoint_of_0_1_0_which_has_no_marks_is_compared_by_number(tmp_path: Path) -> None:
    injector = beam.Create(["a", "b"]).injector()
    assert injector.unread(2) is None
    assert injector.unread(1) == "the number of its elements was 1 when its input ended and is 2 now"


def test_the_directory_of_temporary_files_may_be_another_after_the_end() -> None:
    ended = CreateKnownBy(["/here"], [None]).injector().plan(0, 10, 1).position
    assert CreateKnownBy(["/there"], [None]).injector().unread(ended) is None
    assert CreateKnownBy(["/here"], [1]).injector().unread(ended) is not None


def test_files_of_a_finished_run_appear_although_it_is_refused(tmp_path: Path) -> None:
    class DiesBeforeTheEnd(Scheduler):
        def step(self, name: str, epoch: int) -> None:
            if name == "deliver":
                raise KeyboardInterrupt

    def write(elements: list[str], scheduler: Scheduler) -> None:
        options = PipelineOptions(checkpoint=f"{tmp_path}/checkpoint")
        with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
            _ = pipeline | "Read" >> beam.Create(elements) | beam.io.WriteToText(f"{tmp_path}/out", num_shards=1)

    with pytest.raises(KeyboardInterrupt):
        write(["a"], DiesBeforeTheEnd())
    assert not list(tmp_path.glob("out*"))
    with pytest.raises(StepError, match="the number of its elements was 1 when its input ended and is 2 now"):
        write(["a", "b"], Scheduler())
    assert [path.read_text() for path in tmp_path.glob("out*")] == ["a\n"]


def test_sets_are_the_same_elements_in_each_process(tmp_path: Path) -> None:
    """Their order is not."""
    (tmp_path / "program.py").write_text(
        "import sys\nimport headrace as beam\n"
        "from headrace.options.pipeline_options import PipelineOptions\n"
        "def fail(each):\n    if sys.argv[1] == 'fail' and each[1] == 5: raise ValueError('stop')\n    return each\n"
        "options = PipelineOptions(checkpoint='checkpoint', max_records_per_epoch=2)\n"
        "with beam.Pipeline('LocalRunner', options) as pipeline:\n"
        "    sets = [({f'{number}', 'a', 'b', 'c'}, number) for number in range(8)]\n"
        "    _ = pipeline | beam.Create(sets) | beam.Map(fail) | beam.Map(lambda each: print(each[1]))\n"
    )
    printed = [
        subprocess.run([sys.executable, "program.py", word], cwd=tmp_path, capture_output=True, text=True, check=False)
        for word in ("fail", "go on")
    ]
    assert [run.returncode for run in printed] == [1, 0], printed[1].stderr
    assert {*"".join(run.stdout for run in printed).split()} == {*"01234567"}


FORMATS = {
    "text": beam.io.ReadFromText,
    "CSV": beam.io.ReadFromCsv,
    "JSON": beam.io.ReadFromJson,
}


@pytest.mark.parametrize("before", FORMATS)
@pytest.mark.parametrize("after", FORMATS)
def test_files_are_not_read_on_in_another_format(tmp_path: Path, before: str, after: str) -> None:
    (tmp_path / "a").write_text('"a"\n' + '"1"\n' * 20)
    run(tmp_path, FORMATS[before](f"{tmp_path}/a"), dies=True)
    if before == after:
        run(tmp_path, FORMATS[after](f"{tmp_path}/a"))
        return
    message = f"source 'Read' has records {after} instead of {before}, so .*--discard_stored=Read"
    with pytest.raises(TopologyChangeError, match=message):
        run(tmp_path, FORMATS[after](f"{tmp_path}/a"))


def test_an_error_of_planning_names_the_step(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n" * 20)
    source = beam.io.ReadFromText(f"{tmp_path}/a")
    run(tmp_path, source, dies=True)
    (tmp_path / "a").write_text("x\n")
    with pytest.raises(StepError, match=r"step 'Read' raised; nothing of this epoch(.|\n)*/a has 2 bytes, and had 40"):
        run(tmp_path, source)
    (tmp_path / "a").unlink()
    with pytest.raises(StepError, match=r"step 'Read' raised; nothing of this epoch(.|\n)*/a is gone: it was found"):
        run(tmp_path, beam.io.ReadFromText(f"{tmp_path}/a", validate=False))


def test_a_sequence_with_another_start_is_refused_and_may_get_longer(tmp_path: Path) -> None:
    first = run(tmp_path, beam.io.GenerateSequence(0, 10), dies=True)
    with pytest.raises(TopologyChangeError, match="'Read' has records numbers from 2 instead of numbers from 0"):
        run(tmp_path, beam.io.GenerateSequence(2, 12))
    assert 0 < len(first) < 10
    assert first + run(tmp_path, beam.io.GenerateSequence(0, 12)) == [*range(12)]


def test_a_sequence_that_gets_longer_after_its_end_is_refused(tmp_path: Path) -> None:
    run(tmp_path, beam.io.GenerateSequence(0, 4))
    with pytest.raises(StepError, match="the number of its elements was 4 when its input ended, and it has 5 now"):
        run(tmp_path, beam.io.GenerateSequence(0, 5))


def test_a_source_that_becomes_several_steps_is_not_called_gone_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n" * 20)
    run(tmp_path, beam.io.ReadFromText(f"{tmp_path}/a"), dies=True)
    with pytest.raises(TopologyChangeError, match=r"'Read' is gone; the step of this label is another one now"):
        run(tmp_path, beam.io.ReadFromText(f"{tmp_path}/a", delimiter=b"c"))
