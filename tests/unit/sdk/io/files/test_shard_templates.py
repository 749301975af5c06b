"""`WriteToText` with names by a template, whose output is the names; `ReadFromText` with a delimiter."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as beam
from headrace.io.filesystems import FileSystems
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner
from headrace.sdk.io.files.file_naming import ShardTemplate
from headrace.testing.util import assert_that, equal_to, open_shards
from headrace.transforms.window import FixedWindows, GlobalWindow, IntervalWindow, TimestampedValue
from tests.restarts import LINES, FixedSize, prepared


def written(folder: Path, elements: list[str], **options: object) -> dict[str, str]:
    """Files -> contents; the transform has put out the paths of the files."""
    with beam.Pipeline("LocalRunner") as pipeline:
        lines = pipeline | beam.Create(elements)
        paths = lines | beam.io.WriteToText(folder / "out", **options)  # type: ignore[arg-type]  # any options
        assert_that(paths, lambda found: _are(folder, found))
    return {path.name: _text(path) for path in folder.iterdir()}


def _are(folder: Path, paths: list[object]) -> None:
    assert sorted(map(str, paths)) == sorted(str(path) for path in folder.iterdir() if path.is_file())


def _text(path: Path) -> str:
    with FileSystems.open(str(path)) as file:
        return file.read().decode()


def test_names_have_shards(tmp_path: Path) -> None:
    options = {"file_name_suffix": ".txt.gz", "header": "head", "footer": "foot", "num_shards": 2}
    assert written(tmp_path, ["a", "b", "c"], shard_name_template="_SSS_NN", **options) == {
        "out_000_02.txt.gz": "head\na\nc\nfoot\n",
        "out_001_02.txt.gz": "head\nb\nfoot\n",
    }
    assert (tmp_path / "out_000_02.txt.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert open_shards(f"{tmp_path}/out*", "rb").read(2) == b"\x1f\x8b"


def test_an_empty_template_means_one_file(tmp_path: Path) -> None:
    options = {"append_trailing_newlines": False, "coder": beam.coders.StrUtf8Coder(), "num_shards": 7}
    assert written(tmp_path, ["a", "b", "c"], shard_name_template="", **options) == {"out": "abc"}


def test_windows_have_files_of_their_own(tmp_path: Path) -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        timed = pipeline | beam.Create([("a", 5), ("b", 65)]) | beam.MapTuple(TimestampedValue)
        windows = timed | beam.WindowInto(FixedWindows(60))
        apart = windows | "Apart" >> beam.io.WriteToText(tmp_path / "w", shard_name_template="-W-SS", num_shards=1)
        assert_that(apart, equal_to([f"{tmp_path}/w-[0.0, 60.0)-00", f"{tmp_path}/w-[60.0, 120.0)-00"]))
        together = windows | "Together" >> beam.io.WriteToText(
            tmp_path / "g", shard_name_template="", windowed_writes=False
        )
        assert_that(together, equal_to([f"{tmp_path}/g"]), label="together")
        with pytest.raises(ValueError, match="add W or V"):
            windows | "None" >> beam.io.WriteToText(tmp_path / "n", shard_name_template="-SS")
        del pipeline.steps[-1]
    assert sorted((tmp_path / "g").read_text().split()) == ["a", "b"]
    assert (tmp_path / "w-[0.0, 60.0)-00").read_text() == "a\n"


def test_templates_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="no S for the number of the shard"):
        beam.io.WriteToText("x", "", True, 0, "gzip")
    with pytest.raises(ValueError, match="if_exists is 'error'"):
        beam.io.WriteToText("x", shard_name_template="-SS", if_exists="error")


def test_letters() -> None:
    window = IntervalWindow(0, 90.5)
    name = ShardTemplate("Sum-", "SS-N-V-WWW", "-SS")(window, None, 3, 120, "", None)
    assert name == "Sum-03-120-[1970-01-01T00-00-00, 1970-01-01T00-01-30)-[0.0, 90.5)-SS"
    assert ShardTemplate("", "V.S", "")(GlobalWindow(), None, 3, 120, "", None) == "None.3"
    unique = {ShardTemplate("", "U-S", "")(window, None, 0, 1, "", None) for _ in range(2)}
    assert len(unique) == 2


@pytest.mark.faults
def test_a_crash_leaves_the_same_files(tmp_path: Path) -> None:
    def life(folder: Path, scheduler: FixedSize) -> bool:
        pipeline = beam.Pipeline("LocalRunner")
        lines = pipeline | beam.io.ReadFromText(f"{folder}/in-*.txt")
        _ = lines | beam.io.WriteToText(folder / "out/text", shard_name_template="-SS", num_shards=3)
        try:
            options = RunOptions(checkpoint=f"{folder}/checkpoint")
            LocalRunner(scheduler=scheduler, intervals=2).run_topology(pipeline.topology(), options)
        except Crash:
            return False
        return True

    reference, scheduler = prepared(tmp_path / "reference"), FixedSize(0)
    assert life(reference, scheduler)
    crashes = 0
    for step in range(4, scheduler.steps, scheduler.steps // 6):
        folder = prepared(tmp_path / f"at-{step}")
        if not life(folder, FixedSize(step, crash_at=step)):
            crashes += 1
            assert life(folder, FixedSize(step + 1))
        shown = [path for path in (folder / "out").iterdir() if not path.name.startswith(".")]
        assert sorted(path.name for path in shown) == ["text-00", "text-01", "text-02"]
        assert sorted(line for path in shown for line in path.read_text().splitlines()) == sorted(LINES)
    assert crashes >= 4, "faults did not fire"


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (b"a|;b|;", {}, ["a", "b"]),
        (b"a|;\nb|;c", {"strip_trailing_newlines": False}, ["a|;", "\nb|;", "c"]),
        (b"a|;b|;c", {"skip_header_lines": 1}, ["b", "c"]),
        (b"a|b\n|;\xff", {"coder": beam.coders.BytesCoder()}, [b"a|b\n", b"\xff"]),
        (b"", {}, []),
    ],
)
def test_lines_end_with_a_delimiter(tmp_path: Path, text: bytes, options: dict[str, object], expected: object) -> None:
    (tmp_path / "in").write_bytes(text)
    with beam.Pipeline("LocalRunner") as pipeline:
        lines = pipeline | beam.io.ReadFromText(tmp_path / "in", delimiter=b"|;", **options)  # type: ignore[arg-type]  # options of several types
        assert lines.is_bounded
        assert_that(lines, equal_to(expected))


def test_delimiters_that_cannot_be(tmp_path: Path) -> None:
    for wrong, said in ((b"", "one or more bytes"), ("|", "one or more bytes"), (b"aba", "not self-overlap")):
        with pytest.raises(ValueError, match=said):
            beam.io.ReadAllFromText(delimiter=wrong)  # type: ignore[arg-type]  # what is refused
        with pytest.raises(ValueError, match=said):
            beam.io.ReadFromText("x", validate=False, delimiter=wrong)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(ValueError, match="has a delimiter"):
        beam.io.ReadFromText("x", validate=False, delimiter=b"|").with_exception_handling()
