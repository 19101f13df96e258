"""Iceberg's own tests of REST catalogs (``iceberg-open-api`` with its test fixtures), unmodified,
against a server that runs: JUnit's console runs them in a JVM. The same jars hold Iceberg's
reference server."""

from __future__ import annotations

import subprocess
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from tests.support.downloads import Missing, alone, cache

VERSION: Final = "1.11.0"
SUITES: Final = ("RESTCompatibilityKitCatalogTests", "RESTCompatibilityKitViewCatalogTests")
RUN_SECONDS: Final = 1_200

_LIBRARIES: Final = (
    f"org.apache.iceberg:iceberg-open-api:{VERSION}:tests",
    f"org.apache.iceberg:iceberg-open-api:{VERSION}:test-fixtures",
    f"org.apache.iceberg:iceberg-core:{VERSION}",
    f"org.apache.iceberg:iceberg-core:{VERSION}:tests",
    f"org.apache.iceberg:iceberg-api:{VERSION}:tests",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
    "org.junit.platform:junit-platform-console-standalone:1.13.4",
    "org.assertj:assertj-core:3.27.3",
    "org.awaitility:awaitility:4.3.0",
    "org.mockito:mockito-core:4.11.0",
    "org.xerial:sqlite-jdbc:3.49.1.0",
    "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.5",
    "org.eclipse.jetty.compression:jetty-compression-server:12.1.5",
    "org.eclipse.jetty.compression:jetty-compression-gzip:12.1.5",
    "org.slf4j:slf4j-simple:2.0.17",
)


class Outcome(msgspec.Struct, frozen=True):
    """The results of the kit's tests: the names of those that passed, some more than once, and the
    messages of the others."""

    passed: tuple[str, ...]
    failed: Mapping[str, str]
    skipped: Mapping[str, str]


def libraries() -> Path:
    """The folder with the jars, fetched by Maven the first time (97 MB).

    Raises:
        Missing: without Maven, or a repository to fetch from.
    """
    home = cache("iceberg-compatibility-kit")
    folder = home / VERSION
    with alone(home):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=home) as name:
                fetched = Path(name) / "fetched"
                fetched.mkdir()
                (fetched / "pom.xml").write_text(_pom())
                goal = ["dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime"]
                _fetch([f"-Dmaven.repo.local={home / 'maven'}", *goal], fetched)
                fetched.rename(folder)
    return folder / "lib"


def _pom() -> str:
    dependencies = []
    for library in _LIBRARIES:
        group, artifact, version, *classifier = library.split(":")
        members = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        members += "".join(f"<classifier>{one}</classifier>" for one in classifier)
        dependencies.append(f"<dependency>{members}</dependency>")
    own = "<groupId>turnstile.tests</groupId><artifactId>iceberg-compatibility-kit</artifactId><version>1</version>"
    return f"""<project><modelVersion>4.0.0</modelVersion>{own}
<dependencies>{"".join(dependencies)}</dependencies></project>"""


def _fetch(goal: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(["mvn", "-q", "-B", *goal], cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Missing(f"Iceberg's compatibility kit needs Maven: {error}") from error
    if done.returncode != 0:
        raise Missing(f"Iceberg's compatibility kit could not be fetched: {done.stdout[-300:].strip()}")


def run(uri: str, warehouse: str, folder: Path) -> Outcome:
    """Runs the kit against the catalog ``warehouse`` of the server at ``uri``; ``folder`` is for
    its reports. Raises Missing as ``libraries``."""
    properties = {
        "rck.local": "false",
        "rck.requires-namespace-create": "true",
        "rck.supports-names-with-dot": "true",
        "uri": uri,
        "warehouse": warehouse,
        "token": "none",
        "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        "org.slf4j.simpleLogger.defaultLogLevel": "error",
        "java.io.tmpdir": str(folder),
    }
    options = [f"-D{name}={value}" for name, value in properties.items()]
    suites = [option for suite in SUITES for option in ("-c", f"org.apache.iceberg.rest.{suite}")]
    launcher = ["org.junit.platform.console.ConsoleLauncher", "execute", *suites, f"--reports-dir={folder}"]
    command = ["java", "-Xmx1g", *options, "-cp", f"{libraries()}/*", *launcher, "--details=none"]
    with (folder / "output.log").open("wb") as log:
        subprocess.run(command, cwd=folder, stdout=log, stderr=log, check=False, timeout=RUN_SECONDS)
    return _outcome(folder)


def _outcome(folder: Path) -> Outcome:
    passed: list[str] = []
    failed: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for name, result, text in _results(folder):
        match result:
            case "failure" | "error":
                failed[name] = text
            case "skipped":
                skipped[name] = text
            case _:
                passed.append(name)
    return Outcome(tuple(passed), failed, skipped)


def _results(folder: Path) -> Iterator[tuple[str, str, str]]:
    for report in folder.glob("TEST-*.xml"):
        for case in ET.parse(report).getroot().iter("testcase"):
            suite = case.get("classname", "").rpartition(".")[2]
            name = f"{suite}.{case.get('name', '').partition('(')[0]}"
            ends = [end for end in case if end.tag in {"failure", "error", "skipped"}]
            text = "".join(f"{end.get('message') or ''}{end.text or ''}" for end in ends)
            yield name, ends[0].tag if ends else "", text
