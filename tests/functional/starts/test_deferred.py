"""Modules that a start defers: they are imported at their first use, and are then what they are
without it."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.functions import cold_start
from tests.support.repository import ROOT
from turnstile.api import deferred

FUNCTIONS: Final = sorted(path.parent.name for path in (ROOT / "functions").glob("*/app.py"))

_DEFERRED: Final = """
import json, sys
before = set(sys.modules)  # of this environment
import app
from turnstile.api import deferred
modules = {name: sys.modules.get(name) for name in deferred.MODULES if name not in before}
print(json.dumps({name: type(module).__name__ for name, module in modules.items() if module is not None}))
"""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_start_uses_no_module_that_it_defers(function: str) -> None:
    states: dict[str, str] = cold_start(function, _DEFERRED)
    assert set(states.values()) <= {"DeferredModule"}, states


def test_a_start_that_no_request_waits_for_defers_nothing() -> None:
    states = cold_start("commit", _DEFERRED, AWS_LAMBDA_INITIALIZATION_TYPE="provisioned-concurrency")
    assert "DeferredModule" not in states.values() and "jmespath" in states


@pytest.mark.parametrize("module", deferred.MODULES)
def test_the_names_that_are_taken_from_a_deferred_module_are_called(module: str) -> None:
    for name in deferred.MODULES[module]:
        assert callable(getattr(importlib.import_module(module), name))


SOURCES: Final = {
    "later/__init__.py": "import sys\nVALUE = 7\n"
    "TIMES = getattr(sys, 'times', [])\nTIMES.append(1)\nsys.times = TIMES\n"
    "def double(number, *, plus=0):\n    return number * 2 + plus\n",
    "later/part.py": "NAME = 'part'\n",
    "other.py": "import later\nfrom later import double\nimport sys\n",
}


def run(program: str, folder: Path) -> Any:
    """Returns the JSON that a Python of its own prints, which defers ``later`` of ``SOURCES``."""
    for name, text in SOURCES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    first = (
        "import json, sys\nfrom turnstile.api import deferred\ndeferred.install({'later': ('double',)})\nimport other\n"
    )
    first += "assert type(sys.modules['later']) is deferred.DeferredModule and not hasattr(sys, 'times')\n"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{folder}:{ROOT / 'layers'}"}
    command = [sys.executable, "-c", first + inspect.cleandoc(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("other.double(3, plus=1)", 7),
        ("other.later.VALUE", 7),
        ("other.later.double(4)", 8),
        ("__import__('later').VALUE", 7),
        ("__import__('later.part').part.NAME", "part"),
        ("__import__('later.part', fromlist=['NAME']).NAME", "part"),
        ("__import__('later', fromlist=['part']).part.NAME", "part"),
        ("hasattr(other.later, 'nothing')", False),
        ("len([*other.later.__path__])", 1),
    ],
)
def test_a_use_imports_the_module_once(expression: str, value: object, tmp_path: Path) -> None:
    assert run(f"print(json.dumps([{expression}, {expression}, sys.times]))", tmp_path) == [value, value, [1]]


def test_a_missing_attribute_is_reported_with_the_module_s_name(tmp_path: Path) -> None:
    program = """
    try:
        other.later.nothing
    except AttributeError as error:
        print(json.dumps(str(error)))
    """
    assert run(program, tmp_path) == "module 'later' has no attribute 'nothing'"


def test_several_threads_import_the_module_once(tmp_path: Path) -> None:
    program = """
    import threading
    barrier = threading.Barrier(16)
    values = []
    def use():
        barrier.wait()
        values.append(other.later.VALUE + other.double(1))
    threads = [threading.Thread(target=use) for _ in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(json.dumps([values, sys.times]))
    """
    assert run(program, tmp_path) == [[9] * 16, [1]]
