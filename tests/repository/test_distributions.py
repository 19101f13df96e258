"""The distributions as users install them: their content, that they do not overlap, and that they
can be imported without this repository."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Final

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from tests.support.repository import ROOT

SOURCES: Final = {
    "turnstile-lake": ".",
    "turnstile-lake-client": "python_client",
    "turnstile-lake-http": "http_client",
    "turnstile-lake-predicates": "layers",
    "turnstile-lake-spark": "spark_client",
}
COPIED: Final = {
    "turnstile-lake": ("pyproject.toml", "README.md", "LICENSE", "layers", "server", "infra", "cli"),
    "turnstile-lake-client": ("python_client",),
    "turnstile-lake-http": ("http_client",),
    "turnstile-lake-predicates": ("layers",),
    "turnstile-lake-spark": ("spark_client",),
}


def project(name: str) -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((ROOT / SOURCES[name] / "pyproject.toml").read_text())["project"]
    return found


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A wheel of each, built from a copy: setuptools leaves folders behind."""
    built = {}
    out = tmp_path_factory.mktemp("wheels")
    for name, source in SOURCES.items():
        copy = tmp_path_factory.mktemp(name)
        for part in COPIED[name]:
            place = copy / part
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist")
            shutil.copytree(ROOT / part, place, ignore=ignored) if (ROOT / part).is_dir() else shutil.copy(
                ROOT / part, place
            )
        command = ["uv", "build", "--quiet", "--wheel", "--no-build-isolation", "--offline", "--python", sys.executable]
        uv = Path(sys.executable).with_name("uv")
        done = subprocess.run(
            [uv, *command[1:], "--out-dir", out, copy / source], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        [built[name]] = out.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
    return built


def contents(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def metadata(wheel: Path) -> Metadata:
    """Checks as the registry does; raises for a refusal."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
        return Metadata.from_email(archive.read(name), validate=True)


def test_each_has_what_a_registry_asks_for(wheels: dict[str, Path]) -> None:
    for name, wheel in wheels.items():
        told = metadata(wheel)
        assert (told.name, str(told.requires_python)) == (name, ">=3.11")
        assert told.summary and told.description and "Apache-2.0" in (told.license_expression or told.license or "")
        assert any(file.endswith("LICENSE") for file in contents(wheel))


def test_no_file_is_in_two_of_them_and_each_says_that_it_has_types(wheels: dict[str, Path]) -> None:
    files = {name: {file for file in contents(wheel) if ".dist-info/" not in file} for name, wheel in wheels.items()}
    for one, other in itertools.combinations(files.values(), 2):
        assert not one & other
    for package in (
        "turnstile",
        "turnstile_client",
        "turnstile_http",
        "turnstile_predicates",
        "turnstile_rows",
        "turnstile_spark",
    ):
        assert any(f"{package}/py.typed" in held for held in files.values())
    for held in files.values():
        assert not [file for file in held if file.startswith(("tests/", "build/", "benchmarks/"))]
    assert "turnstile_server/console/site/index.html" in files["turnstile-lake"]


def test_what_they_need_of_one_another_has_one_version(wheels: dict[str, Path]) -> None:
    versions = {name: str(metadata(wheel).version) for name, wheel in wheels.items()}
    assert len(set(versions.values())) == 1
    for wheel in wheels.values():
        for needed in metadata(wheel).requires_dist or ():
            if needed.name in versions:
                assert str(needed.specifier) == f"=={versions[needed.name]}"


def test_the_ranges_hold_the_versions_that_are_locked() -> None:
    locked = dict(
        re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==([^ ;]+)", (ROOT / "requirements/dev.txt").read_text(), re.MULTILINE)
    )
    for name in SOURCES:
        told = project(name)
        extras = told.get("optional-dependencies", {})
        assert isinstance(extras, dict) and isinstance(told.get("dependencies", []), list)
        for text in itertools.chain(told.get("dependencies", []), *extras.values()):  # type: ignore[call-overload]
            needed = Requirement(text)
            if needed.name not in SOURCES:
                assert needed.specifier.contains(locked[needed.name]), f"{name}: {text}, locked {locked[needed.name]}"


@pytest.mark.parametrize(
    ("names", "statement"),
    [
        (("turnstile-lake-client", "turnstile-lake-http", "turnstile-lake-predicates"), "import turnstile_client"),
        (
            ("turnstile-lake-spark", "turnstile-lake-http", "turnstile-lake-predicates"),
            "import turnstile_spark, turnstile_predicates",
        ),
        (
            ("turnstile-lake", "turnstile-lake-predicates"),
            "import turnstile_cli.main, turnstile_server, turnstile.api.apps",
        ),
    ],
)
def test_they_can_be_imported_where_nothing_else_of_turnstile_is(
    wheels: dict[str, Path], tmp_path: Path, names: tuple[str, ...], statement: str
) -> None:
    """Imports without the editable packages of this environment; its other packages stand for those
    of a registry."""
    for name in names:
        with zipfile.ZipFile(wheels[name]) as archive:
            archive.extractall(tmp_path)
    others = {"turnstile_client", "turnstile_spark", "turnstile_cli", "turnstile_server"} - {
        path.name for path in tmp_path.iterdir()
    }
    code = f"""
import importlib.util, sys
named = lambda finder: getattr(finder, "__module__", "") + repr(finder)
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in named(finder)]
sys.path[:] = [{str(tmp_path)!r}, *(path for path in sys.path if not path.startswith({str(ROOT)!r}) or ".venv" in path)]
{statement}
for name, module in sys.modules.items():
    if name.partition(".")[0].startswith("turnstile") and getattr(module, "__file__", None):
        assert module.__file__.startswith({str(tmp_path)!r}), module.__file__
for name in {sorted(others)!r}:
    assert importlib.util.find_spec(name) is None, name
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
