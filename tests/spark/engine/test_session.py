"""What can be wrong with Java, Spark and Python is one clear sentence; what is there is used as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from headrace.lowlevel import BoundedInjector, Computation, Context, Record, Topology
from headrace.lowlevel.code_pickling import ShippingError
from headrace.runners.spark import SparkRunner, session
from headrace.runners.spark.cluster.classic import Classic
from headrace.runners.spark.cluster.cluster import cluster_of
from headrace.runners.spark.errors import SparkSetupError
from headrace.runners.spark.jobs import epoch_job

pytestmark = pytest.mark.spark

PROGRAM = """
from headrace.lowlevel import BoundedInjector, Topology
from headrace.runners.spark import SparkRunner
topology = Topology()
topology.injector("in", BoundedInjector([]))
SparkRunner().run_topology(topology)
"""


JAVA = {"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}


def last_line(environment: dict[str, str]) -> str:
    """What a program says at last that cannot have a session."""
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    command = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(command, env=kept | environment, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 1
    return ran.stderr.strip().splitlines()[-1]


def java(folder: Path, script: str) -> Path:
    path = folder / "jdk" / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!{shutil.which('sh')}\n{script}\n")
    path.chmod(0o755)
    return path


def test_no_java(tmp_path: Path) -> None:
    said = last_line({"PATH": str(tmp_path)})
    oldest = 17 if pyspark.__version__ >= "4" else 11
    assert f"SparkSetupError: Spark needs Java {oldest} or newer, but there is no java on the PATH; install" in said
    assert "apt-get install default-jre-headless" in said


def test_java_home_without_java(tmp_path: Path) -> None:
    assert f"JAVA_HOME is {tmp_path}, where there is no bin/java" in last_line({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize("version", ["10.0.2", "1.8.0_402"])
def test_old_java(tmp_path: Path, version: str) -> None:
    path = java(tmp_path, f"echo 'openjdk version \"{version}\" 2018-10-16' >&2")
    feature = 8 if version.startswith("1.") else 10
    assert f"{path} is Java {feature}; install a newer one" in last_line({"PATH": str(path.parent)})


def test_old_java_says_so_in_its_release_file(tmp_path: Path) -> None:
    path = java(tmp_path, "exit 1")
    (tmp_path / "jdk" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="10.0.20"\n')
    assert f"{path} is Java 10" in last_line({"JAVA_HOME": str(tmp_path / "jdk")})


def test_java_that_does_not_work(tmp_path: Path) -> None:
    path = java(tmp_path, "exit 1")
    said = last_line({"JAVA_HOME": str(tmp_path / "jdk"), "PATH": os.environ["PATH"]})
    assert f"Spark could not start its Java process with {path}" in said
    assert "point JAVA_HOME at a complete Java 17 or 21" in said


def test_what_java_says_is_passed_on_with_the_remedy(tmp_path: Path) -> None:
    said = "Error occurred during initialization of VM\nCould not reserve enough space for 8388608KB object heap"
    path = java(tmp_path, f"cat >&2 <<'END'\n{said}\nEND\nexit 1")
    told = last_line({"JAVA_HOME": str(tmp_path / "jdk"), "PATH": os.environ["PATH"]})
    assert f"with {path}: Could not reserve enough space for 8388608KB object heap; let Java take less (spark." in told


def test_a_spark_home_without_spark(tmp_path: Path) -> None:
    told = last_line({"SPARK_HOME": str(tmp_path), **JAVA})
    assert f"SPARK_HOME is {tmp_path}, where there is no bin/spark-submit; unset SPARK_HOME to use the Spark in" in told


def test_settings_that_spark_does_not_take(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 200m\n")
    told = last_line({"SPARK_CONF_DIR": str(tmp_path), **JAVA})
    assert "System memory" in told and "let Java have 1g or more: spark.driver.memory, in spark-defaults.conf" in told


GIVEN = """
from headrace.runners.spark.session import open_session
session = open_session()
conf, java = session.sparkContext.getConf(), session.sparkContext._jvm.java.lang
print([conf.get(name) for name in ("spark.master", "spark.app.name", "spark.driver.memory", "spark.x")])
print(java.Runtime.getRuntime().maxMemory() >> 20, java.System.getProperty("mine"), conf.get("spark.ui.enabled"))
print(session.range(3).rdd.map(lambda row: row.id + 1).collect())
"""


def test_settings_of_the_user_are_kept(tmp_path: Path) -> None:
    """Those in files and in arguments of `spark-submit`, of which headrace has values of its own for a session."""
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master local[1]\nspark.app.name=mine\nspark.driver.memory 611m\n"
        "spark.driver.extraJavaOptions  -Dmine=yes\n"
    )
    arguments = {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": "--conf spark.x=7 pyspark-shell", **JAVA}
    ran = subprocess.run(
        [sys.executable, "-c", GIVEN], env=os.environ | arguments, capture_output=True, text=True, check=False
    )
    settings, process, numbers = ran.stdout.splitlines() or [ran.stderr]
    assert settings == "['local[1]', 'mine', '611m', '7']" and numbers == "[1, 2, 3]"
    assert process.endswith(" yes false") and 500 < int(process.split()[0]) < 700


def test_old_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.4.4")
    with pytest.raises(SparkSetupError, match=r"Spark 3\.4\.4 is installed, but headrace needs 3\.5 or newer: pip"):
        session.open_session()


def test_old_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(spark), "version", "3.4.4")
    # What the session was asked for before it may have kept.
    monkeypatch.delitem(vars(spark), "version", raising=False)
    with pytest.raises(SparkSetupError, match=r"Spark 3\.4\.4 is what the session runs on, but"):
        SparkRunner(spark).run_topology(simple())


def test_a_client_without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pyspark-client says: it has no Spark that could be started."""
    monkeypatch.delattr(pyspark, "SparkContext")
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert not session.has_session()
    with pytest.raises(SparkSetupError, match=r"a client of Spark Connect .*SPARK_REMOTE=sc://host:15002"):
        session.open_session()


def test_a_client_that_brings_the_classes_of_spark_without_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What databricks-connect says: it has `SparkContext` and Py4J, but nothing that these could start."""
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "pyspark" / "__init__.py"))
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(session, "_has_context", lambda: False)
    for name in ("SPARK_HOME", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SparkSetupError, match=r"DatabricksSession\.builder\.getOrCreate\(\)"):
        session.open_session()


@pytest.mark.parametrize(("server", "says"), [("4.1.0", ""), ("4.0.3", "newer than the server, Spark 4.0.3")])
def test_a_client_that_its_server_does_not_understand(monkeypatch: pytest.MonkeyPatch, server: str, says: str) -> None:
    def refuse(self: object, rows: object, schema: str) -> None:
        raise AnalysisException("[SQL_CONF_NOT_FOUND] The SQL config cannot be found.")

    # One without a server: it is known by where its class is.
    methods = {"version": server, "__module__": "pyspark.sql.connect.session", "createDataFrame": refuse}
    remote = type("SparkSession", (), methods | {"client": SimpleNamespace(host="host")})()
    monkeypatch.setattr(pyspark, "__version__", "4.1.3")
    if not says:
        assert session.checked(remote) is remote
        return
    with pytest.raises(SparkSetupError, match=says) as caught:
        session.checked(remote)
    assert "pip install 'pyspark-client==4.0.*'" in str(caught.value)


def simple(computation: Computation | None = None) -> Topology:
    topology = Topology()
    topology.injector("in", BoundedInjector([(1, 1)]))
    if computation is not None:
        topology.computation("lonely", computation, {"in": lambda value: value}, [])
    return topology


def test_the_active_session_is_used_and_stays_the_active_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Before Spark 4.1 a test with a session of its own leaves that as the active one.
    cluster_of(spark).make_active()
    assert session.open_session() is spark
    # Large epochs go in as a DataFrame, and Spark makes the session of one that is made from rows the active one.
    monkeypatch.setattr(epoch_job, "_SMALL", 0)
    SparkRunner().run_topology(simple())
    assert session.open_session() is spark


def test_a_cluster_needs_a_checkpoint(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Classic, "is_local", lambda cluster: False)
    with pytest.raises(SparkSetupError, match=r"runs on local\[2,4\].*--checkpoint"):
        SparkRunner(spark).run_topology(simple())


def test_code_that_cannot_travel_is_named(spark: SparkSession) -> None:
    own = threading.local()

    class Local(Computation):
        def process_record(self, record: Record, context: Context) -> None:
            own.last = context.state = 1

    with pytest.raises(ShippingError, match=r"step 'lonely' cannot be sent to the workers: .*'own'"):
        SparkRunner(spark).run_topology(simple(Local()))


def test_workers_run_under_this_interpreter(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python-that-is-not-there")
    SparkRunner(spark).run_topology(simple())
    assert spark.sparkContext.pythonExec == sys.executable


def test_a_program_that_finds_headrace_in_its_own_way(tmp_path: Path) -> None:
    """Started elsewhere, with its modules in a folder that only it knows: the workers find them too."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "mine.py").write_text("def key(value):\n    return value % 2\n")
    program = tmp_path / "program.py"
    program.write_text(f"""
import sys
sys.path.insert(0, {str(tmp_path / "lib")!r})
import mine
from dataclasses import dataclass
from headrace.lowlevel import BoundedInjector, CallSink, Computation, Topology
from headrace.runners.spark import SparkRunner

@dataclass(frozen=True)
class Sum:
    total: int

class Adding(Computation):
    def process_record(self, record, context):
        context.state = Sum((context.state or Sum(0)).total + record.value)
        context.set_timer("end", 100)
    def process_timer(self, timer, context):
        context.produce("sums", context.state)

topology = Topology()
topology.injector("in", BoundedInjector([(i, i) for i in range(10)]))
topology.computation("add", Adding(), {{"in": mine.key}}, ["sums"])
topology.sink("print", "sums", CallSink(lambda epoch, rows: print(sorted(value.total for value, _ in rows))))
SparkRunner().run_topology(topology)
""")
    ran = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "[20, 25]\n"
    # Neither does Java say that it loads an incubator module, nor Spark anything.
    assert ran.stderr == ""
