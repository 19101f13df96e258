"""``requirements/setup`` makes missing parts anew and leaves whole parts alone."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.support.repository import ROOT


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path):
    """A checkout with a Java, and a Python that makes environments by saying so and installs
    nothing."""
    (tmp_path / "requirements").mkdir()
    shutil.copy(ROOT / "requirements" / "setup", tmp_path / "requirements")
    program(tmp_path / "jre/bin/java", "echo 'openjdk version \"17.0.1\"' >&2")
    program(tmp_path / "python", f'[ "$2" = venv ] && exit 9\nexec {sys.executable} "$@"')
    return tmp_path


def setup(checkout):
    environment = {**os.environ, "PYTHON": str(checkout / "python"), "JAVA_HOME": str(checkout / "jre")}
    ended = subprocess.run(
        [checkout / "requirements/setup"], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode != 0, "these environments end where something would be installed"
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("left", ["nothing", "no python", "a python without pip"])
def test_an_environment_whose_making_was_interrupted_is_made_anew(checkout, left):
    if left != "nothing":
        (checkout / ".venv/bin").mkdir(parents=True)
    if left == "a python without pip":
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True)
    told = setup(checkout)
    assert "creating .venv" in told
    assert "-m venv' failed" in told


def test_a_whole_environment_is_kept(checkout):
    program(checkout / ".venv/bin/python", '[ "$2" = pip ] && echo installing && exit 9\nexit 0')
    told = setup(checkout)
    assert "creating" not in told
    assert "installing" in told
