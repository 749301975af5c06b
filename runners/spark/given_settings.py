"""Settings of Spark that the user has given outside of the program, which a session of headrace's own has to keep.

Spark reads them from `spark-defaults.conf`, the arguments in `PYSPARK_SUBMIT_ARGS` and a few environment variables.
What a program sets itself comes before all of them, so headrace must know them before it sets anything.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from headrace.runners.spark.pyspark_private import spark_home

_FLAGS = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}
"""Arguments of `spark-submit` that stand for settings which headrace has a value of its own for."""
_VARIABLES = {"MASTER": "spark.master", "SPARK_DRIVER_MEMORY": "spark.driver.memory"}
"""Environment variables that do."""


def given_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings that `spark-submit` would find in this environment. Raises OSError for an unreadable file."""
    found = {name: environment[variable] for variable, name in _VARIABLES.items() if environment.get(variable)}
    arguments = submit_arguments(environment.get("PYSPARK_SUBMIT_ARGS", ""))
    path = Path(arguments.pop("--properties-file", "") or _defaults(environment))
    if path.is_file():
        found |= properties(path.read_text(errors="replace"))
    return found | arguments


def _defaults(environment: Mapping[str, str]) -> Path:
    folder = environment.get("SPARK_CONF_DIR")
    return Path(folder or Path(environment.get("SPARK_HOME") or spark_home(), "conf"), "spark-defaults.conf")


def submit_arguments(text: str) -> dict[str, str]:
    """Return the settings among arguments of `spark-submit`; `--properties-file` stays under that name.

    >>> submit_arguments("--master local[2] --conf spark.ui.enabled=false --driver-memory=3g pyspark-shell")
    {'spark.master': 'local[2]', 'spark.ui.enabled': 'false', 'spark.driver.memory': '3g'}
    """
    found: dict[str, str] = {}
    rest = shlex.split(text)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if flag not in {*_FLAGS, "--conf", "-c", "--properties-file"}:
            continue
        if not equals and rest:
            value = rest.pop(0)
        if flag in ("--conf", "-c"):
            flag, _, value = value.partition("=")
        found[_FLAGS.get(flag, flag)] = value
    return found


def properties(text: str) -> dict[str, str]:
    r"""Return the settings of a file such as `spark-defaults.conf`.

    >>> properties("# ours\nspark.master   local[2]\nspark.app.name = my app\nspark.x:\\\n  1\n")
    {'spark.master': 'local[2]', 'spark.app.name': 'my app', 'spark.x': '1'}
    """
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    parts = (re.split(r"\s*[=:]\s*|\s+", line.strip(), maxsplit=1) for line in lines)
    return {name: "".join(rest).strip() for name, *rest in parts if name and name[0] not in "#!"}
