"""The packs of a layer: modules and regular expressions come from one file each, and are in all
else as without it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final

import pytest

from layers import build as layers
from tests.support.deployment import patterns as patterns_of_starts
from tests.support.repository import ROOT
from turnstile.api import packs, patterns

SOURCES: Final = {
    "things/__init__.py": "NAME = 'things'\nfrom things import part\n",
    "things/part.py": "def fail():\n    raise ValueError('of the layer')\n",
    "things/data/__init__.py": "",
    "things/data/text.txt": "a resource",
    "single.py": "import single_too\n",
    "single_too.py": "VALUE = 1\n",
    "things-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: things\nVersion: 1.2\n",
}

_IMPORTED: Final = """
import importlib.metadata, importlib.resources, inspect, json, sys, traceback
from turnstile.api import packs
finder = packs.install(sys.argv[1])
import things, things.part, things.data, single
said = {}
for name in ("things", "things.part", "things.data", "single", "single_too"):
    module = sys.modules[name]
    spec = module.__spec__
    said[name] = {
        "file": module.__file__, "name": spec.name, "origin": spec.origin, "has location": spec.has_location,
        "parent": spec.parent, "path": list(getattr(module, "__path__", [])),
        "source": inspect.getsource(module) if inspect.getmodule(module) and module.__file__.count("data") == 0 else "",
        "is loader's": module.__loader__ is spec.loader, "is package": spec.loader.is_package(name),
    }
try:
    things.part.fail()
except ValueError as error:
    said["traceback"] = [[frame.filename, frame.line] for frame in traceback.extract_tb(error.__traceback__)][1:]
said["resource"] = importlib.resources.files("things.data").joinpath("text.txt").read_text()
said["version"] = importlib.metadata.version("things")
said["reloaded"] = importlib.reload(things).NAME
print(json.dumps([finder is not None, type(single.__loader__).__name__, said]))
"""


def write(folder: Path, sources: dict[str, str]) -> Path:
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A layer with a pack and with resources."""
    folder = write(tmp_path / "layer", SOURCES)
    layers.compile_modules(folder)
    layers.pack_modules(folder)
    return folder


def run(program: str, *words: str, path: list[Path]) -> Any:
    """Returns the JSON that a Python of its own prints last."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(map(str, [*path, ROOT / "layers"]))}
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_packed_module_behaves_like_one_from_a_file(layer: Path, tmp_path: Path) -> None:
    (installed, loader, packed) = run(_IMPORTED, str(layer), path=[layer])
    assert installed and loader == "PackLoader"
    (layer / packs.NAME).unlink()
    (installed, loader, from_files) = run(_IMPORTED, str(layer), path=[layer])
    assert not installed and loader == "SourceFileLoader"
    assert packed == from_files
    assert packed["traceback"] == [[str(layer / "things/part.py"), "raise ValueError('of the layer')"]]


def test_a_module_comes_from_the_pack_without_a_look_at_its_file(layer: Path) -> None:
    for source in layer.rglob("*.py"):
        source.write_text("this would not compile")
    program = (
        "import sys; from turnstile.api import packs; packs.install(sys.argv[1]); import single_too as s; "
        "print(s.VALUE)"
    )
    assert run(program, str(layer), path=[layer]) == 1


_VALUE: Final = """
import sys
from turnstile.api import packs
finder = packs.install(sys.argv[1])
import single_too
print([int(finder is not None), single_too.VALUE])
"""


@pytest.mark.parametrize("header", [packs.FORMAT + b"\0\0\r\n", b"other123", b""])
def test_with_a_pack_of_another_python_modules_come_from_their_files(layer: Path, header: bytes) -> None:
    whole = (layer / packs.NAME).read_bytes()
    (layer / packs.NAME).write_bytes(header + whole[len(header) :] if header else b"")
    (layer / "single_too.py").write_text("VALUE = 2\n")
    assert run(_VALUE, str(layer), path=[layer]) == [0, 2]


def test_a_layer_that_is_not_on_the_path_gives_no_modules(layer: Path, tmp_path: Path) -> None:
    elsewhere = write(tmp_path / "elsewhere", {"single_too.py": "VALUE = 3\n"})
    assert run(_VALUE, str(layer), path=[elsewhere]) == [0, 3]


def test_a_module_of_a_folder_before_the_layer_is_taken_as_always(layer: Path, tmp_path: Path) -> None:
    before = write(tmp_path / "before", {"single_too.py": "VALUE = 4\n"})
    assert run(_VALUE, str(layer), path=[before, layer]) == [1, 4]
    assert run(_VALUE, str(layer), path=[layer, before]) == [1, 1]


def test_a_module_below_a_package_from_elsewhere_is_not_the_layers(layer: Path, tmp_path: Path) -> None:
    before = write(tmp_path / "before", {"things/__init__.py": "", "things/part.py": "VALUE = 5\n"})
    program = _VALUE.replace("import single_too", "import things.part as single_too")
    assert run(program, str(layer), path=[before, layer]) == [1, 5]


def test_a_module_that_the_pack_lacks_is_looked_for_on_the_path(layer: Path) -> None:
    write(layer, {"later.py": "VALUE = 6\n", "things/later.py": "VALUE = 7\n"})
    program = _VALUE.replace("import single_too", "import later, things.later as single_too")
    assert run(program, str(layer), path=[layer]) == [1, 7]


def test_the_pack_takes_the_place_of_compiled_files_less_those_that_are_imported_before_it(tmp_path: Path) -> None:
    for package in layers.OWN:
        shutil.copytree(ROOT / "layers" / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    layers.compile_modules(tmp_path)
    layers.pack_modules(tmp_path)
    left = {file.relative_to(tmp_path).parent.parent / file.name.partition(".")[0] for file in tmp_path.rglob("*.pyc")}
    assert {".".join(path.parts).removesuffix(".__init__") for path in left} == set(layers.FIRST)
    program = """
import json, sys
import turnstile.api.starts
before = sorted(name for name in sys.modules if name.startswith("turnstile"))
from turnstile.delta import ratify
print(json.dumps([before, type(ratify.__loader__).__name__]))
"""
    program = f"import os; os.environ['AWS_LAMBDA_FUNCTION_NAME'] = 'commit'\n{program}"
    assert run(program, path=[tmp_path]) == [sorted(layers.FIRST), "PackLoader"]


def test_every_listed_pattern_is_unpacked_as_re_compiles_it(tmp_path: Path) -> None:
    program = """
    import json, re, sys
    from turnstile.api import patterns
    listed = [(text.encode("latin-1") if raw else text, flags) for text, flags, raw in json.loads(sys.argv[1])]
    open(f"{sys.argv[2]}/{patterns.NAME}", "wb").write(patterns.pack(listed))
    fresh = {each: re._compiler.compile(*each) for each in listed}
    re.purge()
    count = patterns.install(sys.argv[2])
    wrong = [each for each in listed if re._cache[type(each[0]), *each] != fresh[each]]
    same = [each for each in listed if re.compile(*each) is not re._cache[type(each[0]), *each]]
    print(json.dumps([count, len(wrong), len(same)]))
    """
    listed = [
        (text.decode("latin-1") if isinstance(text, bytes) else text, flags, isinstance(text, bytes))
        for text, flags in layers.listed_patterns()
    ]
    assert run(cleandoc(program), json.dumps(listed), str(tmp_path), path=[]) == [len(listed), 0, 0]


def test_a_pack_of_patterns_of_another_python_is_left_alone(tmp_path: Path) -> None:
    pack = bytearray(patterns.pack([("a+", 0)]))
    pack[0] ^= 1
    (tmp_path / patterns.NAME).write_bytes(pack)
    assert patterns.install(str(tmp_path)) == 0
    assert patterns.install(str(tmp_path / "nothing")) == 0


@pytest.mark.parametrize("function", patterns_of_starts.FUNCTIONS)
def test_the_patterns_that_a_start_compiles_are_listed(function: str) -> None:
    """But those of Python's own modules, which are others in another Python."""
    compiled = patterns_of_starts.compiled(function)
    own = {pattern for pattern, module in compiled.items() if module.partition(".")[0] not in sys.stdlib_module_names}
    assert len(own) > 10
    missing = own - set(layers.listed_patterns())
    assert not missing, "make patterns"
    assert len(layers.listed_patterns()) <= patterns.MOST
