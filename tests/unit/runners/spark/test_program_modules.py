"""What a program ships to a cluster is its own source code, however installed packages came onto the search path."""

from __future__ import annotations

import _struct
import importlib
import json
import site
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.runners.spark.code_shipping import program_files


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The search path and the modules of this process are as they were afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    names = set(sys.modules)
    yield
    for name in set(sys.modules) - names:
        del sys.modules[name]


def wheel(folder: Path, name: str, files: dict[str, str], metadata: str = "dist-info") -> Path:
    """A package as pip leaves it in a folder."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    about = folder / f"{name}-1.0.{metadata}"
    about.mkdir(parents=True, exist_ok=True)
    if metadata == "dist-info":
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "RECORD").write_text("".join(f"{path},,\n" for path in files))
    else:
        (about / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    return about


def sent(*modules: str) -> set[str]:
    """What a program ships, of everything that it imports in these modules."""
    tops = {module.partition(".")[0] for module in modules}
    for module in modules:
        importlib.import_module(module)
    return {name for name in program_files() if name.removesuffix(".py").partition("/")[0] in tops}


PACKAGE = {"lake/__init__.py": "from lake import shore", "lake/shore.py": "", "ripple.py": ""}


def test_a_module_of_the_programs_own_folder_is_sent(tmp_path: Path) -> None:
    for path in PACKAGE:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    sys.path.insert(0, str(tmp_path))
    assert sent("lake.shore", "ripple") == set(PACKAGE)


def test_a_package_that_pip_has_put_into_a_target_folder_is_not_sent(tmp_path: Path) -> None:
    wheel(tmp_path / "vendored", "lake", PACKAGE)
    sys.path.insert(0, str(tmp_path / "vendored"))
    assert sent("lake", "ripple") == set()


def test_a_package_that_a_pth_file_leads_to_is_not_sent(tmp_path: Path) -> None:
    wheel(tmp_path / "elsewhere", "lake", PACKAGE)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "elsewhere.pth").write_text(f"{tmp_path / 'elsewhere'}\n")
    site.addsitedir(str(tmp_path / "site"))
    assert sent("lake", "ripple") == set()


def test_packages_that_pythonpath_leads_to_are_not_sent(tmp_path: Path) -> None:
    """A whole site-packages folder, so also the real packages that headrace itself needs."""
    wheel(tmp_path / "elsewhere", "lake", PACKAGE)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "own.py").write_text("import lake, numpy, pyarrow, pyspark")
    program = (
        "import own, json; from headrace.runners.spark.code_shipping import program_files; "
        "print(json.dumps(sorted(program_files())))"
    )
    packages = Path(pytest.__file__).parents[1]
    here = Path(__file__).parents[4]
    ran = subprocess.run(
        [sys._base_executable, "-c", program],  # type: ignore[attr-defined]  # CPython has it
        env={"PYTHONPATH": f"{tmp_path / 'mine'}:{here}:{tmp_path / 'elsewhere'}:{packages}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == ["own.py"]
    assert ran.stderr == ""


@pytest.mark.parametrize("lists", [(), ("SOURCES.txt", "installed-files.txt")], ids=["packaged", "pip"])
def test_a_package_of_an_older_installer_is_not_sent(tmp_path: Path, lists: tuple[str, ...]) -> None:
    about = wheel(tmp_path, "lake", PACKAGE, "egg-info")
    (about / "top_level.txt").write_text("lake\nripple\n")
    for name in lists:
        (about / name).write_text("\n".join(PACKAGE))
    sys.path.insert(0, str(tmp_path))
    assert sent("lake", "ripple") == set()


def test_a_project_that_is_installed_as_editable_is_sent(tmp_path: Path) -> None:
    """Its metadata lie in one folder, its files in another, which executors do not have."""
    about = wheel(tmp_path / "site", "lake", {"lake.pth": f"{tmp_path / 'project'}\n"})
    (about / "direct_url.json").write_text(json.dumps({"url": "file:///project", "dir_info": {"editable": True}}))
    for path in PACKAGE:
        (tmp_path / "project" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / path).touch()
    site.addsitedir(str(tmp_path / "site"))
    assert sent("lake.shore", "ripple") == set(PACKAGE)


def test_a_project_that_was_built_where_it_stands_is_sent(tmp_path: Path) -> None:
    """Building leaves metadata beside the source code; nothing is installed there."""
    about = wheel(tmp_path, "lake", PACKAGE, "egg-info")
    (about / "top_level.txt").write_text("lake\nripple\n")
    (about / "SOURCES.txt").write_text("setup.py\nripple.py\nlake/__init__.py\n")
    sys.path.insert(0, str(tmp_path))
    assert sent("lake.shore", "ripple") == set(PACKAGE)


def test_what_lies_in_an_installed_package_goes_with_it(tmp_path: Path) -> None:
    wheel(tmp_path, "lake", {"lake/__init__.py": ""})
    (tmp_path / "lake" / "made.py").write_text("# by a tool, after the installation")
    sys.path.insert(0, str(tmp_path))
    assert sent("lake.made") == set()


def test_a_name_that_installed_and_own_packages_share(tmp_path: Path) -> None:
    wheel(tmp_path / "theirs", "lake-geese", {"lake/geese/__init__.py": "", "lake/geese/grey.py": ""})
    (tmp_path / "mine" / "lake" / "ducks").mkdir(parents=True)
    (tmp_path / "mine" / "lake" / "ducks" / "__init__.py").touch()
    sys.path[:0] = [str(tmp_path / "theirs"), str(tmp_path / "mine")]
    assert sent("lake.geese.grey", "lake.ducks") == {"lake/ducks/__init__.py"}


def test_a_package_with_compiled_parts_is_not_sent_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in PACKAGE:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    compiled = tmp_path / "lake" / Path(_struct.__file__).name
    compiled.write_bytes(Path(_struct.__file__).read_bytes())
    sys.path.insert(0, str(tmp_path))
    assert sent("lake", "lake._struct", "ripple") == {"ripple.py"}
    assert f"package 'lake' is not sent to the executors, as it has compiled parts ({compiled})" in caplog.text
    assert "pip install" in caplog.text
