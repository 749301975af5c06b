"""Each shipped alert is fired and cleared by a real Prometheus, over a pipeline that misbehaves; for `./dev soak`.

The rules are those of the documentation with all times divided, so that nobody waits for a quarter of an hour. The
alert of growing state compares days, which Prometheus cannot be made to believe; `promtool` in the test of the file
checks its form.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parents[2]
RULES = ROOT / "docs" / "howto" / "headrace-alerts.yml"
_SCALE = {"15m": "40s", "10m": "4s", "5m": "2s", "2m": "2s", "> 300": "> 4", "> 900": "> 8", "> 5\n": "> 0.5\n"}
_PATIENCE = 200


def scaled(rules: str) -> str:
    """The rules with short times."""
    pattern = "|".join(rf"(?<![\w]){re.escape(text)}" for text in sorted(_SCALE, key=len, reverse=True))
    return re.sub(pattern, lambda found: _SCALE[found[0]], rules)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Operated:
    """A run under a supervisor that starts it again, scraped by Prometheus."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ports = folder, (free_port(), free_port())
        self.misbehaviour = folder / "misbehaviour"
        self.misbehaviour.mkdir()
        (folder / "rules.yml").write_text(scaled(RULES.read_text()))
        (folder / "prometheus.yml").write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
                    "rule_files": ["rules.yml"],
                    "scrape_configs": [
                        {"job_name": "headrace", "static_configs": [{"targets": [f"127.0.0.1:{self.ports[0]}"]}]}
                    ],
                }
            )
        )
        data = f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{self.ports[1]}"
        self._prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={folder / 'prometheus.yml'}", *data],
            stdout=subprocess.DEVNULL,
            stderr=(folder / "prometheus.log").open("w"),
        )
        self.start()

    def start(self) -> None:
        """Start the run; it goes on from its checkpoint."""
        command = [sys.executable, "-m", "headrace", "run", f"{ROOT / 'tests/alerting/program.py'}:pipeline"]
        options = [f"--checkpoint={self.folder / 'checkpoint'}", f"--prometheus={self.ports[0]}"]
        self._run = subprocess.Popen(
            [*command, *options],
            env={**os.environ, "MISBEHAVIOUR": str(self.misbehaviour)},
            stderr=(self.folder / "run.log").open("a"),
        )

    def keep_up(self) -> None:
        """Start the run again if it has ended."""
        if self._run.poll() is not None:
            self.start()

    def kill(self) -> None:
        """End the run as a machine does that goes down."""
        self._run.send_signal(signal.SIGKILL)
        self._run.wait()

    def firing(self) -> dict[str, list[dict[str, str]]]:
        """Alert -> the labels of those that fire."""
        try:
            with urlopen(f"http://127.0.0.1:{self.ports[1]}/api/v1/alerts", timeout=5) as answer:
                alerts = json.load(answer)["data"]["alerts"]
        except OSError:
            return {}
        found: dict[str, list[dict[str, str]]] = {}
        for alert in alerts:
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], []).append(alert["labels"])
        return found

    def value(self, series: str) -> float | None:
        """The newest value of a series."""
        with urlopen(f"http://127.0.0.1:{self.ports[1]}/api/v1/query?query={series}", timeout=5) as answer:
            result = json.load(answer)["data"]["result"]
        return float(result[0]["value"][1]) if result else None

    def wait(self, condition: Callable[[], object], meanwhile: Callable[[], None] = lambda: None) -> object:
        """Wait until the condition holds, and return it."""
        until = time.monotonic() + _PATIENCE
        while not (found := condition()):
            assert time.monotonic() < until, (self.firing(), (self.folder / "run.log").read_text()[-2000:])
            meanwhile()
            time.sleep(0.25)
        return found

    def close(self) -> None:
        self._run.kill()
        self._prometheus.terminate()
        self._run.wait()
        self._prometheus.wait()


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    made = Operated(tmp_path_factory.mktemp("operated"))
    made.wait(lambda: made.firing() is not None and _has_committed(made))
    yield made
    made.close()


def _has_committed(made: Operated) -> bool:
    try:
        return (made.value("headrace_epoch") or 0) > 10
    except OSError:
        return False


@pytest.mark.parametrize(
    ("file", "alerts", "labels"),
    [
        ("step", ["HeadraceHanging", "HeadraceSlowEpochs"], {"phase": "tasks", "step": "Enrich"}),
        ("sink", ["HeadraceHanging", "HeadraceSlowEpochs"], {"phase": "deliver", "step": "Out"}),
        ("slow", ["HeadraceSlowSink"], {"step": "Out"}),
        ("silent", ["HeadraceBehind"], {}),
        ("bad", ["HeadraceDeadLetters"], {}),
        ("late", ["HeadraceDropping"], {"step": "Sum"}),
    ],
)
def test_what_goes_wrong_in_a_run_is_fired_and_cleared(
    operated: Operated, file: str, alerts: list[str], labels: dict[str, str]
) -> None:
    operated.wait(lambda: not operated.firing())
    (operated.misbehaviour / file).touch()
    for alert in alerts:
        operated.wait(lambda alert=alert: alert in operated.firing())  # type: ignore[misc]
    first = operated.firing()[alerts[0]]
    assert any(labels.items() <= its.items() for its in first), first
    (operated.misbehaviour / file).unlink()
    operated.wait(lambda: not operated.firing())


def test_a_dead_driver_is_fired_and_cleared_and_a_restart_is_no_false_alarm(operated: Operated) -> None:
    operated.wait(lambda: not operated.firing())
    operated.kill()
    operated.wait(lambda: "HeadraceDown" in operated.firing())
    operated.start()
    operated.wait(lambda: "HeadraceDown" not in operated.firing())
    until = time.monotonic() + 15
    while time.monotonic() < until:
        # Records were dropped and set apart before: that is not an increase of the run that goes on.
        assert not {"HeadraceDropping", "HeadraceDeadLetters", "HeadraceRestarting"} & operated.firing().keys()
        time.sleep(0.5)


@pytest.mark.parametrize(("file", "alert"), [("crash", "HeadraceDown"), ("crash later", "HeadraceRestarting")])
def test_a_crash_loop_is_fired_and_cleared(operated: Operated, file: str, alert: str) -> None:
    """One that ends too soon to be scraped looks dead; one that lives for a while is seen to start again and again."""
    operated.wait(lambda: not operated.firing())
    (operated.misbehaviour / file).touch()
    operated.wait(lambda: alert in operated.firing(), operated.keep_up)
    (operated.misbehaviour / file).unlink()
    operated.wait(lambda: not operated.firing(), operated.keep_up)


def test_a_stuck_watermark_stays_fired_over_a_restart(operated: Operated) -> None:
    """The figures of the last commit are there at once, so the alert of a silent source does not resolve."""
    operated.wait(lambda: not operated.firing())
    (operated.misbehaviour / "silent").touch()
    operated.wait(lambda: "HeadraceBehind" in operated.firing())
    operated.kill()
    operated.start()
    operated.wait(lambda: operated.value("up") == 1)
    operated.wait(lambda: "HeadraceBehind" in operated.firing())
    (operated.misbehaviour / "silent").unlink()
    operated.wait(lambda: not operated.firing())
