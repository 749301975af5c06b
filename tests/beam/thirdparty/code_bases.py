"""The table of code bases, and an environment for each of them."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

TABLE = Path(__file__).with_name("code_bases.toml")
ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).with_name("programs")


@dataclass(frozen=True, slots=True)
class CodeBase:
    """A distribution of the package index and its tests.

    Args:
        name: Name on the package index.
        version: The version that is tried.
        tests: Files and folders of tests, relative to `within`.
        within: Where the tests are: in the "source" distribution, or among what is "installed"; or "programs", if the
            package has no tests that run today, and programs of ours use its transforms.
        requires: What else is installed, as pip's arguments. The package itself is installed without its
            dependencies, as many name an old release of Beam.
        alone: What else is installed without its dependencies, for the same reason.
        arguments: Further arguments for pytest.
        variables: Variables of the environment.
        preloaded: Modules that are loaded before Spark's workers are forked.
        differs: Test to the reason why its outcome differs between the two runners. One that is listed and does not
            differ is an error.
        differs_on_spark: The same for those that differ on Spark only.
    """

    name: str
    version: str
    tests: Sequence[str]
    within: str = "source"
    requires: Sequence[str] = ()
    alone: Sequence[str] = ()
    arguments: Sequence[str] = ()
    variables: dict[str, str] = field(default_factory=dict)
    preloaded: Sequence[str] = ("apache_beam.testing.util",)
    differs: dict[str, str] = field(default_factory=dict)
    differs_on_spark: dict[str, str] = field(default_factory=dict)

    def listed(self, runner: str) -> dict[str, str]:
        """Test to the reason why its outcome with this runner ("local" or "spark") differs from that with Beam's."""
        return self.differs | (self.differs_on_spark if runner == "spark" else {})


def code_bases() -> list[CodeBase]:
    """All code bases of the table."""
    return [CodeBase(**row) for row in tomllib.loads(TABLE.read_text(encoding="utf-8"))["code_base"]]


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment above the checkout's own: what a code base needs, and below it Beam, Spark and Headrace."""

    code_base: CodeBase
    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.folder / "env" / "bin" / "python"

    @property
    def tests_root(self) -> Path:
        """The folder to which the paths of the tests are relative."""
        if self.code_base.within == "programs":
            return PROGRAMS
        if self.code_base.within == "installed":
            return self._packages
        [source] = (path for path in (self.folder / "source").iterdir() if path.is_dir())
        return source

    def prepare(self) -> None:
        """Install the code base, unless this was done before. Raises `CalledProcessError` if pip cannot."""
        done = self.folder / "done"
        base = self.code_base
        # Not all of the row: a test that is listed, or an argument of pytest, installs nothing.
        installed = repr((base.name, base.version, base.within, base.requires, base.alone))
        if done.exists() and done.read_text(encoding="utf-8") == installed:
            return
        venv.create(self.folder / "env", clear=True, with_pip=True)
        line = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
        (self._packages / "of_the_checkout.pth").write_text(line, encoding="utf-8")
        # For a code base without a configuration of pytest, which would take that of the checkout.
        (self.folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        if base.requires:
            self._pip("install", "--no-compile", *base.requires)
        wanted = f"{base.name}=={base.version}"
        self._pip("install", "--no-compile", "--no-deps", wanted, *base.alone)
        if base.within == "source":
            self._pip("download", "--no-deps", "--no-binary", base.name, "-d", str(self.folder), wanted)
            [archive] = self.folder.glob("*.tar.gz")
            with tarfile.open(archive) as source:
                source.extractall(self.folder / "source", filter="data")
            archive.unlink()
        done.write_text(installed, encoding="utf-8")

    @property
    def _packages(self) -> Path:
        """The folder of the installed packages."""
        return Path(sysconfig.get_path("purelib", vars={"base": str(self.folder / "env")}))

    def _pip(self, command: str, *arguments: str) -> None:
        options = ["--quiet", "--no-input", "--disable-pip-version-check"]
        kept = [f"{name}=={version(name)}\n" for name in ("apache-beam", "pyspark", "pyarrow", "protobuf")]
        constraints = self.folder / "constraints.txt"
        constraints.write_text("".join(kept), encoding="utf-8")
        pip = [str(self.python), "-m", "pip", command, *options, "-c", str(constraints)]
        subprocess.run([*pip, *arguments], check=True, stdout=sys.stderr)
