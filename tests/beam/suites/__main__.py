"""The command `./dev beam`: `python -m tests.beam.suites [options] [module...] [of pytest]`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.beam.examples.programs import ALL_ON
from tests.beam.examples.programs import TABLE as PROGRAMS
from tests.beam.suites.tables import HERE, RECORDED, Suite, name_of, suites
from tests.beam.suites.tally import Tally
from tests.beam.thirdparty import __main__ as thirdparty


def main(argv: Sequence[str]) -> int:
    """Run the suites; the exit code is that of pytest."""
    if "--third-party" in argv:
        return thirdparty.main([argument for argument in argv if argument != "--third-party"])
    known, others = _parser().parse_known_args(argv)
    if known.examples:
        return _run_examples(known.modules, "spark" if known.spark else "local", others)
    chosen = _chosen(known.modules, known.quick)
    runner = "beam" if known.record else "spark" if known.spark else "local"
    package = find_spec("apache_beam")
    assert package is not None and package.origin is not None
    root = Path(package.origin).parents[1]
    # One session of Spark is in one process, and the quick part is itself part of tests that are spread over the cores.
    spread = [] if known.spark or known.quick or len(chosen) == 1 else ["-n", "auto", "--dist", "loadfile"]
    seconds = 300 if known.spark else 60
    arguments = ["-c", str(HERE / "pytest.ini"), f"--rootdir={root}", "-q", *spread, f"--suite-runner={runner}"]
    files = _files(chosen, root)
    recorder = Recorder(list(files))
    options = [*arguments, f"--suite-seconds={seconds}", *others]
    code = pytest.main([*options, *map(str, files.values())], [recorder, Tally()])
    if known.record:
        recorder.write()
    return int(code)


def _files(chosen: Sequence[Suite], root: Path) -> dict[str, Path]:
    """The files of modules; those that the installed release of Beam does not have are named and left out."""
    files = {
        suite.module: root.joinpath("apache_beam", *suite.module.split(".")).with_suffix(".py") for suite in chosen
    }
    if absent := [module for module, file in files.items() if not file.exists()]:
        print(f"not in this release of Beam: {', '.join(absent)}")
    return {module: file for module, file in files.items() if module not in absent}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./dev beam",
        description="Run Apache Beam's own tests with HeadraceRunner. Other arguments go to pytest.",
    )
    parser.add_argument("modules", nargs="*", help="parts of names of test modules; all if none is given")
    parser.add_argument("--spark", action="store_true", help="run the pipelines on Spark")
    parser.add_argument("--quick", action="store_true", help="only what the ordinary tests run")
    parser.add_argument("--examples", action="store_true", help="Beam's example programs instead of its tests")
    parser.add_argument("--third-party", action="store_true", help="tests of other people's code bases on Beam instead")
    parser.add_argument("--record", action="store_true", help="run on Beam's runner, and record what fails there")
    return parser


def _run_examples(parts: Sequence[str], runner: str, others: Sequence[str]) -> int:
    """Run the example programs whose modules have one of the parts, or all; the exit code is that of pytest."""
    os.environ[ALL_ON] = runner
    names = ["-k", " or ".join(parts)] if parts else []
    return int(pytest.main(["-q", str(PROGRAMS.parent), *names, *others]))


def _chosen(parts: Sequence[str], quick: bool) -> list[Suite]:
    """The suites whose names have one of the parts."""
    return [
        suite
        for suite in suites().values()
        if (suite.quick or not quick) and (not parts or any(part in suite.module for part in parts))
    ]


class Recorder:
    """A plugin of pytest that notes the tests which fail, or are skipped, with Beam's own runner.

    Args:
        modules: The modules that are run; what is recorded of others stays.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self._outcomes: dict[str, dict[str, set[str]]] = {module: {} for module in modules}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note an outcome that is no pass."""
        if not report.passed:
            module, test = name_of(report.nodeid)
            self._outcomes[module].setdefault(report.outcome, set()).add(test)

    def write(self) -> None:
        """Write what was noted."""
        recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
        for module, outcomes in self._outcomes.items():
            recorded[module] = {outcome: sorted(tests) for outcome, tests in sorted(outcomes.items())}
        RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
