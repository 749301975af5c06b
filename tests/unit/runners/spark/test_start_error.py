"""Texts of a Java that cannot start, and the one sentence for each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from headrace.runners.spark import java_gateway
from headrace.runners.spark.java_gateway import JavaStartError, start_error

SAID = {
    "no name": (
        """
WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" org.apache.hadoop.security.KerberosAuthException: failure to login: \
javax.security.auth.login.LoginException: java.lang.NullPointerException: invalid null input: name
\tat com.sun.security.auth.UnixPrincipal.<init>(Unknown Source)
""",
        f"invalid null input: name; the user id {os.getuid()} has no name here: add a line for it to /etc/passwd, or",
    ),
    "no memory": (
        "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x00000005c0000000, 8589934592, 0) failed; "
        "error='Not enough space' (errno=12)\n"
        "# There is no more.",
        "os::commit_memory(0x00000005c0000000, 8589934592, 0) failed; error='Not enough space' (errno=12); let Java",
    ),
    "little memory": (
        "java.lang.IllegalArgumentException: System memory 259522560 must be at least 471859200."
        " Please increase heap size using the --driver-memory option",
        "let Java have 1g or more: spark.driver.memory, in spark-defaults.conf or in a session that the program makes",
    ),
    "a wrong unit": (
        "Invalid maximum heap size: -Xmx2x\nError: Could not create",
        "-Xmx2x; write 2g or 512m: spark.dri",
    ),
    "a module": (
        "Error occurred during initialization of boot layer\njava.lang.module.FindException: Module "
        "jdk.incubator.vector not found",
        ": Module jdk.incubator.vector not found; point JAVA_HOME at a complete Java 17 or 21",
    ),
    "a new Java": (
        "java.lang.UnsupportedOperationException: getSubject is not supported\n\tat javax",
        ": getSubject is not supported; point JAVA_HOME at a complete Java 17 or 21",
    ),
    "no address": (
        "java.net.BindException: Cannot assign requested address: Service 'sparkDriver' failed after 16 retries",
        "failed after 16 retries; set SPARK_LOCAL_IP to an address of this machine, such as 127.0.0.1",
    ),
    "a master": (
        "org.apache.spark.SparkException: Could not parse Master URL: 'lcal'",
        "'lcal'; correct spark.master, in",
    ),
    "a disk": ("java.io.IOException: No space left on device", "; free some space, or name another folder with spark."),
    "something else": (
        "26/01/01 WARN Utils: hm\nError: who knows\n\tat a.b\nmore",
        "java: Error: who knows; correct that, or, if this Java lacks something, point JAVA_HOME at a complete Java",
    ),
    "nothing": ("", "java, which said nothing; point JAVA_HOME at a complete Java 17 or 21"),
}
"""What Java says, and a part of the sentence."""


@pytest.mark.parametrize("kind", SAID)
def test_what_java_said_and_the_remedy(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    said, part = SAID[kind]
    found = start_error(JavaStartError(said), "/usr/bin/java")
    assert found.startswith("Spark could not start its Java process with /usr/bin/java") and "\n" not in found
    assert part in found


def test_a_spark_home_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    for path in ("bin/spark-submit", "jars/spark-core_2.12-3.4.1-amzn-0.jar"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).touch()
    found = start_error(TypeError("'JavaPackage' object is not callable"), "java")
    assert found.startswith(f"SPARK_HOME is {tmp_path}, which is Spark 3.4, but pyspark is ")
    assert "unset SPARK_HOME to use the Spark in the package pyspark" in found


def test_the_text_of_an_error_is_in_a_java_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(error: Exception) -> str:
        raise Py4JNetworkError("Error while sending or receiving")

    monkeypatch.setattr(java_gateway, "message_text", gone)
    found = start_error(Py4JError("An error occurred"), "java")
    assert found.startswith("Spark could not start its Java process with java: Py4JError: Java has ended since")
