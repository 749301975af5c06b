"""Run the tests that are nearest to modules of the product: `./dev test-for PATH...`.

A run has told which they are (`tests.nearest.callmap`), or the names in the tests do (`tests.nearest.names`).
Nothing here needs an installed package, so that a new clone answers at once.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tests.house import ROOT
from tests.nearest.callmap import CallMap
from tests.nearest.names import NameGraph, module_name

_MOST = 8
"""Test modules that are run unless told otherwise."""


def chosen(paths: Collection[str], calls: CallMap, graph: NameGraph) -> dict[str, str]:
    """Test modules, nearest first, each with the reason; those that no map knows come after those that it does."""
    called = calls.tests_of(paths)
    reasons = {test: f"calls {here} functions here, {all_ - here} elsewhere" for test, (here, all_) in called.items()}
    named = {test: steps for test, steps in graph.tests_of(paths).items() if test not in calls.called}
    return reasons | {test: _in_words(steps) for test, steps in named.items()}


def _in_words(steps: int) -> str:
    return "names what is defined here" if steps == 1 else f"names what uses it, over {steps} steps"


def product_files(given: str, files: Mapping[str, str]) -> list[str]:
    """The product's files that a path stands for, from anywhere, also by way of `headrace/`; at least one."""
    path = Path(given).resolve()
    if not path.is_relative_to(ROOT):
        sys.exit(f"dev: {given} is not in this checkout.")
    inside = str(path.relative_to(ROOT))
    found = [file for file in files if file == inside or file.startswith(f"{inside}/")]
    if not found or inside.startswith("tests/"):
        sys.exit(
            f"dev: {given} is neither a module of the product nor a folder of modules: name one, such as sdk/triggers."
        )
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the nearest tests, and run them."""
    given, for_pytest = _parsed(arguments)
    graph, calls = NameGraph.of_the_checkout(), CallMap.read()
    paths = [file for path in given.paths for file in product_files(path, graph.texts)]
    reasons = chosen(paths, calls, graph)
    tests = list(reasons)[: given.most]
    for test in tests:
        print(f"{test}  ({reasons[test]})")
    if len(reasons) > len(tests):
        print(f"and {len(reasons) - len(tests)} more, further away: --most {len(reasons)} takes all")
    if given.list:
        return 0
    examples = [_import_path(path) for path in paths if ">>> " in graph.texts[path]]
    return subprocess.call([sys.executable, "-m", "pytest", "-q", *for_pytest, *examples, *tests], cwd=ROOT)


def _import_path(path: str) -> str:
    """Where Python finds a file of the product: under another path it would be loaded twice."""
    return module_name(path).replace(".", "/") + (".py" if (ROOT / path).name != "__init__.py" else "/__init__.py")


def _parsed(arguments: Sequence[str]) -> tuple[argparse.Namespace, Sequence[str]]:
    """Ours, and those for pytest."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser("./dev test-for", description="Run the tests nearest to modules of the product.")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a module or a folder, such as sdk/triggers")
    parser.add_argument("--list", action="store_true", help="only print the tests")
    parser.add_argument("--most", type=int, default=_MOST, help=f"how many test modules to run ({_MOST})")
    parser.epilog = "Arguments after -- go to pytest. ./dev test-for --map runs all tests, to learn which call what."
    return parser.parse_args(arguments[:at]), arguments[at + 1 :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
