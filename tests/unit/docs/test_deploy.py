"""The files of `deploy/` have the form that their platforms need; commands, options, series and files in them exist."""

from __future__ import annotations

import argparse
import configparser
import importlib.util
import inspect
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import headrace as beam
from headrace.cli.run import run
from headrace.options.pipeline_options import PipelineOptions
from tests.kafkacluster import Cluster
from tests.pages import DOCS, ROOT
from tests.unit.docs.test_metrics_page import served

DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix not in (".md", ".whl"))
SCRIPTS = [path for path in FILES if path.suffix == ".sh"]
DOCKERFILES = [path for path in FILES if path.name == "Dockerfile"]
YAML = [path for path in FILES if path.suffix in (".yaml", ".yml")]
WHEEL = "headrace-*.whl"
"""What `pip wheel` makes in the folder, and git ignores."""
SECONDS_TO_END = 25
"""The longest that a run takes to end after SIGTERM, which supervisors must wait for."""
_INSTRUCTIONS = {"ARG", "FROM", "USER", "SHELL", "COPY", "RUN", "ENV", "ENTRYPOINT"}
_PLACES = ("s3://", "gs://", "az://", "/var/lib/", "/state/", "${var.checkpoint}", "$CHECKPOINT")


def load(name: str) -> Any:
    """The only document of a file of YAML, or the first of several."""
    return next(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def program() -> ModuleType:
    """The program that all files start."""
    spec = importlib.util.spec_from_file_location("clicks_of_the_kit", DEPLOY / "clicks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def kinds(of: type[PipelineOptions] = PipelineOptions) -> Iterator[type[PipelineOptions]]:
    """All classes of options, with those of programs that were imported."""
    yield of
    for kind in of.__subclasses__():
        yield from kinds(kind)


def flags_of_programs() -> set[str]:
    """Flags of options, and those that `clicks.py` declares."""
    program()
    found = set()
    for kind in kinds():
        parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
        kind._add_argparse_args(parser)
        found |= {
            flag.replace("-", "_").replace("__", "--", 1) for one in parser._actions for flag in one.option_strings
        }
    return found


def flags_of_run() -> set[str]:
    """Flags of `headrace run` itself."""
    return {f"--{name}" for name in inspect.signature(run).parameters}


def commands() -> dict[str, tuple[list[str], bool]]:
    """File -> arguments of the program there, and whether `headrace run` takes them."""
    bundle = load("databricks/databricks.yml")["resources"]["jobs"]["clicks"]["tasks"][0]
    unit = service()["Service"]["ExecStart"].split()
    assert unit[1] == "run"
    laptop = load("laptop/compose.yaml")["services"]["pipeline"]["command"]
    assert laptop[0] == "run"
    found = {
        "kubernetes/spark-application.yaml": (load("kubernetes/spark-application.yaml")["spec"]["arguments"], False),
        "databricks/databricks.yml": (bundle["spark_python_task"]["parameters"], False),
        "systemd/headrace@.service": (unit[2:], True),
        "laptop/compose.yaml": (laptop[1:], True),
    }
    for path in SCRIPTS:
        text = path.read_text(encoding="utf-8")
        # From the checkpoint on these are arguments of the program.
        (line,) = [line for line in text.splitlines() if "--checkpoint=" in line]
        found[str(path.relative_to(DEPLOY))] = (re.findall(r'--\w+="?[^\s",\\]+', line), False)
    return found


def packages(extra: str = "") -> list[str]:
    """The packages of an extra of headrace, or those that it always needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: list[str] = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return found


def service() -> configparser.ConfigParser:
    """The unit of systemd."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",), strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # as its documentation says
    parser.read(DEPLOY / "systemd" / "headrace@.service", encoding="utf-8")
    return parser


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_a_file_begins_with_what_was_tried(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[lines[0].startswith("#!")].startswith("# Tried: ")


def test_the_readme_and_the_guide_name_each_file() -> None:
    readme = (DEPLOY / "README.md").read_text(encoding="utf-8")
    assert {str(path.relative_to(DEPLOY)) for path in FILES} <= set(re.findall(r"`([^`]+)`", readme))
    for link in re.findall(r"\]\(([^)#]+)", readme):
        assert (DEPLOY / link).is_file(), link
    pages = "".join(
        path.read_text(encoding="utf-8") for path in [DOCS / "guide/cluster.md", *DOCS.glob("guide/platforms/*")]
    )
    for name in set(re.findall(r"`deploy/([\w@./-]+)`", pages)):
        assert (DEPLOY / name).exists(), name


@pytest.mark.parametrize("path", YAML, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_yaml_can_be_read(path: Path) -> None:
    assert all(isinstance(each, dict) for each in yaml.safe_load_all(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("name", "command"), commands().items(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_flags_exist_and_the_checkpoint_is_where_all_reach_it(name: str, command: tuple[list[str], bool]) -> None:
    arguments, is_run = command
    flags = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
    assert set(flags) <= flags_of_programs() | (flags_of_run() if is_run else set())
    (checkpoint,) = [argument.partition("=")[2].strip('"') for argument in arguments if "--checkpoint=" in argument]
    assert checkpoint.startswith(_PLACES)


def test_supervisors_wait_until_a_run_has_ended() -> None:
    application = load("kubernetes/spark-application.yaml")["spec"]
    unit, laptop = service()["Service"], load("laptop/compose.yaml")["services"]["pipeline"]
    waits = [application["driver"]["terminationGracePeriodSeconds"], int(unit["TimeoutStopSec"])]
    waits.append(int(laptop["stop_grace_period"].removesuffix("s")))
    assert min(waits) > SECONDS_TO_END
    # As in the table of exit codes in docs/commands.md.
    assert (unit["SuccessExitStatus"], unit["RestartPreventExitStatus"], unit["Restart"]) == (
        "143 129",
        "2 3",
        "on-failure",
    )
    assert (unit["KillMode"], laptop["restart"], application["restartPolicy"]["type"]) == (
        "mixed",
        "on-failure",
        "Always",
    )


def test_the_application_has_what_the_operator_needs_and_python_memory() -> None:
    application = load("kubernetes/spark-application.yaml")
    assert (application["apiVersion"], application["kind"]) == ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    spec = application["spec"]
    assert {"type", "mode", "sparkVersion", "image", "mainApplicationFile", "driver", "executor"} <= set(spec)
    (volume,) = spec["volumes"]
    for part in ("driver", "executor"):
        pod = spec[part]
        assert [mount["name"] for mount in pod["volumeMounts"]] == [volume["name"]]
        (temporary,) = [each["value"] for each in pod["env"] if each["name"] == "TMPDIR"]
        assert temporary == pod["volumeMounts"][0]["mountPath"] and pod["memoryOverhead"]
    dockerfile = (DEPLOY / "kubernetes" / "Dockerfile").read_text(encoding="utf-8")
    assert f"apache/spark:{spec['sparkVersion']}-" in dockerfile
    assert spec["mainApplicationFile"].removeprefix("local://") in dockerfile
    (metrics,) = [argument.rpartition(":")[2] for argument in spec["arguments"] if "--metrics=" in argument]
    assert [port["containerPort"] for port in spec["driver"]["ports"]] == [int(metrics)]


def test_spark_submit_on_kubernetes_has_the_settings_of_the_application() -> None:
    lines = (DEPLOY / "kubernetes/submit.conf").read_text(encoding="utf-8").splitlines()
    conf = dict(line.split() for line in lines if line and not line.startswith("#"))
    spec = load("kubernetes/spark-application.yaml")["spec"]
    assert {name: conf[name] for name in spec["sparkConf"]} == spec["sparkConf"]
    assert conf["spark.kubernetes.container.image"] == spec["image"]
    account = conf["spark.kubernetes.authenticate.driver.serviceAccountName"]
    assert account == spec["driver"]["serviceAccount"]
    (volume,) = spec["volumes"]
    for part in ("driver", "executor"):
        pod = spec[part]
        for name in ("cores", "memory", "memoryOverhead"):
            assert conf[f"spark.{part}.{name}"] == str(pod[name])
        mounted = f"spark.kubernetes.{part}.volumes.emptyDir.{volume['name']}"
        assert conf[f"{mounted}.mount.path"] == pod["volumeMounts"][0]["mountPath"]
        assert conf[f"{mounted}.options.sizeLimit"] == volume["emptyDir"]["sizeLimit"]
    assert conf["spark.kubernetes.driverEnv.TMPDIR"] == conf["spark.executorEnv.TMPDIR"]
    assert conf["spark.executorEnv.TMPDIR"] == spec["executor"]["env"][0]["value"]
    page = (DOCS / "guide/platforms/kubernetes.md").read_text(encoding="utf-8")
    assert {spec["mainApplicationFile"], *spec["arguments"]} <= set(page[page.index("spark-submit --master") :].split())
    secret = spec["driver"]["envFrom"][0]["secretRef"]["name"]
    keys = re.findall(r"--from-literal=(\w+)", page)
    for part in ("driver", "executor"):
        prefix = f"spark.kubernetes.{part}.secretKeyRef."
        assert {name for name in conf if name.startswith(prefix)} == {prefix + key for key in keys}
        assert all(conf[prefix + key] == f"{secret}:{key}" for key in keys)
    for command in (f"docker push {spec['image']}", f"secret generic {secret} ", f"serviceaccount {account}\n"):
        assert command in page


def test_the_environment_of_fabric_has_what_the_wheel_needs() -> None:
    (pip,) = load("fabric/environment.yml")["dependencies"]
    assert pip["pip"] == [*packages(), *packages("kafka"), *packages("prometheus")]


def test_both_access_modes_of_databricks_have_a_cluster() -> None:
    bundle = load("databricks/databricks.yml")
    clusters = [
        target["resources"]["jobs"]["clicks"]["job_clusters"][0]["new_cluster"] for target in bundle["targets"].values()
    ]
    modes = {cluster["data_security_mode"]: cluster["spark_version"] for cluster in clusters}
    assert modes == {"SINGLE_USER": "16.4.x-scala2.12", "USER_ISOLATION": "17.3.x-scala2.13"}
    (task,) = bundle["resources"]["jobs"]["clicks"]["tasks"]
    assert (DEPLOY / "databricks" / task["spark_python_task"]["python_file"]).is_file()
    used = set(re.findall(r"\$\{var\.(\w+)\}", (DEPLOY / "databricks/databricks.yml").read_text(encoding="utf-8")))
    assert used == set(bundle["variables"])
    assert bundle["variables"]["wheel"]["default"] == f"../{WHEEL}"
    (kafka,) = packages("kafka")
    assert task["libraries"] == [{"whl": "${var.wheel}"}, {"pypi": {"package": kafka}}]
    required = {name for name, each in bundle["variables"].items() if "default" not in each}
    page = (DOCS / "guide/platforms/databricks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"BUNDLE_VAR_(\w+)=", page)) == required
    secrets = set(re.findall(r"\{\{secrets/clicks/([\w-]+)\}\}", str(bundle)))
    assert set(re.findall(r"put-secret clicks ([\w-]+)", page)) == secrets


def test_the_laptop_has_files_and_images_for_its_services() -> None:
    laptop = load("laptop/compose.yaml")
    for name, each in laptop["services"].items():
        assert ("image" in each) != ("build" in each), name
        for volume in each.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in laptop["volumes"] or source == "./out" or (DEPLOY / "laptop" / source).exists(), source
    build = laptop["services"]["pipeline"]["build"]
    assert (DEPLOY / "laptop" / build["context"] / build["dockerfile"]).is_file()
    (target,) = load("laptop/prometheus.yml")["scrape_configs"][0]["static_configs"][0]["targets"]
    (port,) = [
        argument.rpartition(":")[2]
        for argument in laptop["services"]["pipeline"]["command"]
        if "prometheus" in argument
    ]
    assert target == f"pipeline:{port}"
    (source,) = load("laptop/grafana/datasources/prometheus.yml")["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    (provider,) = load("laptop/grafana/dashboards/headrace.yml")["providers"]
    mounted = [volume.split(":")[1] for volume in laptop["services"]["grafana"]["volumes"]]
    assert any(path.startswith(provider["options"]["path"] + "/") for path in mounted)


def test_the_autoscaler_asks_for_series_that_a_run_has() -> None:
    scaled = load("kubernetes/autoscale.yaml")
    assert (scaled["apiVersion"], scaled["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    for trigger in scaled["spec"]["triggers"]:
        asked = set(re.findall(r"\bheadrace_\w+", trigger["metadata"]["query"]))
        assert asked and asked <= served()
        assert {"serverAddress", "query", "threshold"} <= set(trigger["metadata"])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_scripts_are_well_formed_and_their_files_exist(path: Path) -> None:
    subprocess.run(["sh", "-n", str(path)], check=True)
    text = path.read_text(encoding="utf-8")
    assert "\nset -eu\n" in text
    assert "../clicks.py" in text and (path.parent / "../clicks.py").is_file()


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_dockerfiles_are_well_formed_and_their_files_exist(path: Path) -> None:
    code = re.sub(r"^#.*\n", "", path.read_text(encoding="utf-8"), flags=re.M).replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in code.splitlines() if line.strip()]
    assert {name for name, _ in lines} <= _INSTRUCTIONS
    assert lines[0][0] == "FROM"
    for name, rest in lines:
        if name == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True)
        elif name == "COPY" and not rest.startswith("--from="):
            assert rest.split()[0] == WHEEL or (DEPLOY / rest.split()[0]).is_file(), rest
        elif name == "ENTRYPOINT":
            # In the form of a list the command is process 1, and gets SIGTERM.
            assert json.loads(rest) == ["headrace"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_images_bring_no_spark_of_their_own(path: Path) -> None:
    code = re.sub(r"^#.*\n", "", path.read_text(encoding="utf-8"), flags=re.M)
    assert re.search(r"^ARG EXTRAS=kafka,prometheus$", code, re.M)
    assert "pyspark==" not in code and "[spark" not in code
    installing = [line for line in code.splitlines() if "pip install" in line]
    assert installing and all('"${1}[$EXTRAS]"' in line for line in installing)


def test_the_program_counts(tmp_path: Path, kafka: Cluster, topic: str) -> None:
    clicks = program()
    rows = [("home", 5), ("cart", 20), ("home", 59), ("home", 61)]
    kafka.send(topic, [(0, None, json.dumps({"page": page, "at": at}), 0) for page, at in rows])
    flags = [f"--servers={kafka.servers}", f"--topic={topic}", f"--output={tmp_path}/counts", "--bounded"]
    with beam.Pipeline("LocalRunner", PipelineOptions(flags)) as pipeline:
        clicks.pipeline(pipeline)
    written = [json.loads(line) for path in tmp_path.glob("counts*") for line in path.read_text().splitlines()]
    found = sorted((row["minute"], row["page"], row["clicks"]) for row in written)
    first, second = "1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z"
    assert found == [(first, "cart", 1), (first, "home", 2), (second, "home", 1)]
