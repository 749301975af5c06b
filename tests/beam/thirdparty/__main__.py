"""The command `./dev beam --third-party`: `python -m tests.beam.thirdparty [--spark] [name...] [of pytest]`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence

from tests.beam.thirdparty.code_bases import ROOT, CodeBase, Environment, code_bases
from tests.beam.thirdparty.daemon import PRELOADED

OUT = ROOT / "out" / "third-party"


def main(argv: Sequence[str]) -> int:
    """Run the tests of the code bases with both runners; 1 if an outcome differs that is not listed, or none passed."""
    parser = argparse.ArgumentParser(
        prog="./dev beam --third-party",
        description="Hold the tests of other people's code bases with HeadraceRunner against Beam's own runner. "
        "Other arguments go to pytest.",
    )
    parser.add_argument("names", nargs="*", help="parts of names of code bases; all if none is given")
    parser.add_argument("--spark", action="store_true", help="run the pipelines on Spark")
    # A worker of Spark imports what the tests import: with TensorFlow, that is 15 s of a core after each failure.
    parser.add_argument("--seconds", type=int, default=300, help="longest time of a test (300)")
    known, others = parser.parse_known_args(argv)
    failed = False
    print(f"{'tests':>6} {'passed':>6} {'same':>6} {'differ':>6} {'listed':>6}  code base", flush=True)
    for code_base in code_bases():
        if not known.names or any(name in code_base.name for name in known.names):
            runner = "spark" if known.spark else "local"
            failed |= not _compare(code_base, runner, known.seconds, others)
    return int(failed)


def _compare(code_base: CodeBase, runner: str, seconds: int, others: Sequence[str]) -> bool:
    """Run the tests of a code base with both runners and print how they compare; whether all is as it should be."""
    environment = Environment(code_base, OUT / code_base.name)
    try:
        environment.prepare()
    except subprocess.CalledProcessError as error:
        print(f"{code_base.name} {code_base.version} cannot be installed: {error}", flush=True)
        return False
    expected, seen = (_outcomes(environment, each, seconds, others) for each in ("beam", runner))
    differ = {test for test in expected | seen if expected.get(test) != seen.get(test)}
    passed = sum(outcome.startswith("passed") for outcome in seen.values())
    known = code_base.listed(runner).keys()
    listed = differ & known
    numbers = [len(seen), passed, len(seen.keys() - differ), len(differ - listed), len(listed)]
    print(*(f"{number:>6}" for number in numbers), f" {code_base.name} {code_base.version}", flush=True)
    for test in sorted(differ - listed):
        words = [outcomes.get(test, "absent").partition(" ")[0] for outcomes in (expected, seen)]
        outputs = f"; outputs in {environment.folder}/*.json" if words[0] == words[1] else ""
        print(f"       {test}: {words[0]} with Beam's runner, {words[1]} here{outputs}", flush=True)
    for test in sorted(known - differ if not others else ()):
        print(f"       {test} is listed and does not differ", flush=True)
    return bool(passed) and differ == listed and (bool(others) or listed == known)


def _outcomes(environment: Environment, runner: str, seconds: int, others: Sequence[str]) -> dict[str, str]:
    """Test -> outcome, with one of the runners. What pytest prints is in a file beside the environment."""
    written = environment.folder / f"{runner}.json"
    written.unlink(missing_ok=True)
    root = environment.tests_root
    ours = environment.code_base.within == "programs"
    command = [str(environment.python), "-m", "tests.beam.thirdparty.child", runner, str(written), str(seconds)]
    command += ["-q", "--continue-on-collection-errors", "-p", "no:cacheprovider", f"--rootdir={root}"]
    command += ["-c", str(environment.folder / "pytest.ini"), f"--confcutdir={root}"] if ours else []
    command += [*environment.code_base.arguments, *others]
    command += [str(root / tests) for tests in environment.code_base.tests]
    with (environment.folder / f"{runner}.txt").open("w", encoding="utf-8") as printed:
        preloaded = {PRELOADED: " ".join(environment.code_base.preloaded)}
        variables = os.environ | preloaded | environment.code_base.variables
        subprocess.run(command, cwd=ROOT, env=variables, stdout=printed, stderr=subprocess.STDOUT)
    if not written.exists():
        return {}
    outcomes: dict[str, str] = json.loads(written.read_text(encoding="utf-8"))
    return outcomes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
