"""Every dependency is under an open licence, and docs/dependencies.md says which, as the packages'
own metadata do."""

from __future__ import annotations

import json
import re
import sysconfig
import tomllib
from importlib.metadata import PackageMetadata, PackageNotFoundError, distributions, metadata
from pathlib import Path
from typing import Final

import pytest

from benchmarks.streaming.systems import PEERS
from tests.support.downloads import cache
from tests.support.repository import ROOT
from tests.support.store.dynoxide import CRATE, VERSION

OPEN: Final = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CDDL-1.0", "CNRI-Python", "EPL-2.0", "ISC", "MIT",
    "MIT-0", "MPL-2.0", "PSF-2.0", "Python-2.0", "Zlib",
}  # fmt: skip
"""SPDX identifiers, all approved by the Open Source Initiative or, of data, free of rights."""

SPELLED: Final = {
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "CC0": "CC0-1.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "any-OSI": "MIT",  # apsw: any licence of the OSI, as the user chooses
}
"""What packages without an SPDX expression write."""

SPELLED_BY_JARS: Final = {
    "Apache 2": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "CDDL + GPLv2 with classpath exception": "CDDL-1.0",
    "Eclipse Distribution License - v 1.0": "BSD-3-Clause",
    "Eclipse Public License, Version 2.0": "EPL-2.0",
    "The Apache License, Version 2.0": "Apache-2.0",
    "The Apache Software License, Version 2.0": "Apache-2.0",
}
"""What Maven modules write instead of an SPDX identifier. Of several licences the user chooses."""

JARS: Final = "jars"
"""The row of the page's table that names the licences of jars."""


def licence_of(about: PackageMetadata) -> str:
    """Returns the licence of a package as an SPDX expression; what it says of itself where that is
    none."""
    if expression := about.get("License-Expression"):
        return str(expression)
    said = (about.get("License") or "").strip().splitlines()
    if said and (said[0] in OPEN or said[0] in SPELLED):
        return SPELLED.get(said[0], said[0])
    names = [one.rsplit(" :: ", 1)[-1] for one in about.get_all("Classifier") or [] if one.startswith("License ::")]
    known = [SPELLED[name] for name in names if name in SPELLED]
    return " OR ".join(known) or (said[0] if said else "")


def is_open(expression: str) -> bool:
    """Whether every identifier of an SPDX expression is open; of a choice one is enough."""
    return any(
        all(part in OPEN for part in re.findall(r"[\w.+-]+", choice) if part != "AND")
        for choice in re.split(r"\bOR\b", expression)
        if choice.strip("() ")
    )


def listed() -> dict[str, str]:
    """The licence of each direct dependency: MIT, where the page lists no other."""
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", section(), re.MULTILINE)
    others = {name: licence for licence, names in rows for name in re.findall(r"`([^`]+)`", names)}
    return dict.fromkeys(direct(), "MIT") | others


def section() -> str:
    """The page's part on licences."""
    return (ROOT / "docs/dependencies.md").read_text().partition("\n## Licences\n")[2].partition("\n## ")[0]


def licences_of_jars() -> dict[str, set[str]]:
    """The licences of each Maven module with a jar that sessions of this machine have loaded, by
    what Ivy keeps of its project file and its parents."""
    found = dict[str, set[str]]()
    for about in Path.home().glob(".ivy2*/cache/*/*/ivy-*.xml"):
        if {"jars", "bundles"} & {path.name for path in about.parent.iterdir()}:
            names = re.findall(r'<license name="([^"]*)"', about.read_text())
            spelled = SPELLED | SPELLED_BY_JARS
            found[f"{about.parent.parent.name}:{about.parent.name}"] = {spelled.get(name, name) for name in names}
    return found


def direct() -> set[str]:
    """The packages of all lists of direct dependencies, and of the console's package.json."""
    files = (
        *(ROOT / "requirements").glob("*.in"),
        ROOT / "infra/lambda.in",
        ROOT / "infra/localemu.in",
        ROOT / "infra/sam.in",
        ROOT / "infra/site.in",
        ROOT / "benchmarks/fleet/peers.in",
        ROOT / "tests/support/clients/sail/requirements.in",
    )
    lines = [line.split("#")[0].strip() for file in files for line in file.read_text().splitlines()]
    names = {re.findall(r"^[\w.-]+", line)[0] for line in (*lines, *PEERS) if line and not line.startswith("-")}
    console = json.loads((ROOT / "console/package.json").read_text())
    return names | set(console["dependencies"]) | set(console["devDependencies"]) | {"dynoxide-rs"}


def test_the_licence_of_every_direct_dependency_is_open() -> None:
    assert listed().keys() == direct()
    assert [name for name, licence in listed().items() if not is_open(licence)] == []


def test_the_licences_of_the_page_are_those_of_the_installed_packages() -> None:
    wrong = {}
    seen = 0
    of_others = elsewhere()
    for name, licence in listed().items():
        try:
            about = metadata(name)
        except PackageNotFoundError:  # of another environment
            about = of_others.get(name.lower().replace("_", "-"))
            if about is None:
                continue
        seen += 1
        if licence_of(about) != licence:
            wrong[name] = licence_of(about)
    assert wrong == {}
    assert seen > 50


def elsewhere() -> dict[str, PackageMetadata]:
    """The metadata of packages in the environments that tests and benchmarks have made on this
    machine."""
    folders = cache("benchmark-peers").parent.glob("*/lib/python*/site-packages")
    found = distributions(path=[str(folder) for folder in folders])
    return {one.metadata["Name"].lower().replace("_", "-"): one.metadata for one in found}


def test_the_jars_of_spark_sessions_have_the_open_licences_that_the_page_names() -> None:
    """Ivy's cache is there after ``make setup``."""
    [row] = re.findall(rf"^\| (.+) \| {JARS} \|$", section(), re.MULTILINE)
    listed_for_jars = set(re.findall(r"`([^`]+)`", row))
    found = licences_of_jars()
    assert {name.partition(":")[0] for name in found} >= {"io.delta", "org.apache.hadoop", "software.amazon.awssdk"}
    assert {name: names for name, names in found.items() if not names & OPEN & listed_for_jars} == {}


def test_the_licences_of_the_page_are_those_of_the_console_s_packages() -> None:
    locked = json.loads((ROOT / "console/package-lock.json").read_text())["packages"]
    told = {name.removeprefix("node_modules/"): one.get("license", "") for name, one in locked.items() if name}
    assert {name: told[name] for name in listed() if name in told and told[name] != listed()[name]} == {}
    closed = [name for name, licence in told.items() if not is_open(licence)]
    assert closed == []


def test_everything_that_comes_with_them_is_open_too() -> None:
    installed = distributions(path=[sysconfig.get_path("purelib")])
    closed = {one.metadata["Name"]: licence_of(one.metadata) for one in installed}
    assert {name: licence for name, licence in closed.items() if not is_open(licence)} == {}


def test_the_licence_of_dynoxide_is_that_of_its_crate() -> None:
    sources = list((Path.home() / ".cargo/registry/src").glob(f"*/{CRATE}-{VERSION}/Cargo.toml"))
    if not sources:
        pytest.skip(f"the crate was not built here in version {VERSION}")
    assert tomllib.loads(sources[0].read_text())["package"]["license"] == listed()["dynoxide-rs"]
