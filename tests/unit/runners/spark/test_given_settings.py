"""Settings of the user: files, arguments and variables, and which of them counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.runners.spark import new_session
from headrace.runners.spark.new_session import given_settings


def test_which_counts(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master file\nspark.app.name file\n! no\nspark.driver.memory 2g"
    )
    (tmp_path / "other").write_text("spark.master other\n")
    environment = {"SPARK_CONF_DIR": str(tmp_path), "MASTER": "variable", "SPARK_DRIVER_MEMORY": "1g"}
    assert given_settings({"SPARK_CONF_DIR": str(tmp_path / "none"), "MASTER": "m"}) == {"spark.master": "m"}
    file = {"spark.master": "file", "spark.app.name": "file", "spark.driver.memory": "2g"}
    assert given_settings(environment) == file
    arguments = "--name 'my app' -c spark.x=a=b --verbose --master=argument pyspark-shell"
    named = {"spark.master": "argument", "spark.app.name": "my app", "spark.x": "a=b"}
    assert given_settings(environment | {"PYSPARK_SUBMIT_ARGS": arguments}) == file | named
    other = given_settings(environment | {"PYSPARK_SUBMIT_ARGS": f"--properties-file {tmp_path / 'other'}"})
    assert other == {"spark.master": "other", "spark.driver.memory": "1g"}
    (tmp_path / "home" / "conf").mkdir(parents=True)
    (tmp_path / "home" / "conf" / "spark-defaults.conf").write_text("spark.master home")
    assert given_settings({"SPARK_HOME": str(tmp_path / "home")}) == {"spark.master": "home"}


@pytest.mark.parametrize(
    ("master", "ours"),
    [
        ("local[3]", True),
        ("local", True),
        (None, True),
        ("spark://host:7077", False),
        ("local-cluster[1,1,1024]", False),
    ],
)
def test_settings_of_a_local_session_are_for_local_masters(
    monkeypatch: pytest.MonkeyPatch, master: str | None, ours: bool
) -> None:
    """Elsewhere workers may lack the daemon, and shuffles cross a network."""
    made: list[dict[str, str]] = []
    monkeypatch.setattr(new_session, "_session", lambda settings: made.append(dict(settings)))
    monkeypatch.setattr(new_session, "_driver_gib", lambda: 3)
    given = {"spark.driver.memory": "2g"} | ({} if master is None else {"spark.master": master})
    new_session.new_session(given)
    (settings,) = made
    assert bool(settings) == ours
    if ours:
        assert settings["spark.master"] == (master or "local[*,4]") and "spark.driver.memory" not in settings
        assert settings["spark.app.name"] == "headrace" and "spark.python.daemon.module" in settings
