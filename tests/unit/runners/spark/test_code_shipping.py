"""What workers on other machines are sent is all that they need, and it needs no Spark to see that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from headrace.runners.spark import code_shipping
from headrace.runners.spark.code_shipping import program_files
from tests.spark import lives


def test_the_package_in_a_zip_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "headrace.zip"
    code_shipping.zipped(code_shipping.package_files(), path)
    script = """
import sys, zipfile
sys.path.insert(0, sys.argv[1])
import importlib, headrace
assert headrace.__file__.startswith(sys.argv[1]), headrace.__file__
names = [name for name in zipfile.ZipFile(sys.argv[1]).namelist() if name.endswith(".py") and "__main__" not in name]
for name in names:
    importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
print(len(names))
"""
    ran = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 50
    assert "headrace/runners/spark/log4j2.properties" in ZipFile(path).namelist()
    again = tmp_path / "again.zip"
    code_shipping.zipped(code_shipping.package_files(), again)
    assert again.read_bytes() == path.read_bytes()


def test_the_package_is_sent_with_its_data() -> None:
    names = set(code_shipping.package_files())
    assert "headrace/absent_names/names_of_beam.json" in names
    assert "headrace/sdk/visualization/plots/page.html" in names
    assert not any("__pycache__" in name for name in names)


def test_only_the_programs_own_modules_are_sent() -> None:
    files = program_files()
    assert files["tests/spark/lives.py"] == Path(lives.__file__)
    assert "tests/spark/__init__.py" in files
    assert not [name for name in files if name.startswith(("pyspark", "pytest", "headrace", "json"))]
