"""Builds the content of a layer in a folder: ``python3.13 layers/build.py shared FOLDER``. ``sam
build`` calls it (``Makefile``).

    shared    the functions' packages and our own                (shared.txt)
    arrow     pyarrow, for functions that read or write Parquet    (arrow.txt)

Packages are installed for the functions' Python and architecture on every machine, and pip compares
every file with its hash in the list. Of botocore's descriptions of services only the called ones
stay, without their texts. Every module is compiled: ``/opt`` cannot be written on Lambda, so an
uncompiled module would be compiled again at each cold start. The compiled modules of the shared
layer are in one file (``turnstile/api/packs.py``), beside their sources.
"""

from __future__ import annotations

import argparse
import compileall
import gzip
import importlib.util
import json
import marshal
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from turnstile.api import packs, patterns
from turnstile_release import BUILT, version

PYTHON: Final = (3, 13)
"""Of the functions, as template.yaml says. Modules compiled by another Python would not be read."""

PLATFORMS: Final = {
    ("shared", "arm64"): "manylinux2014_aarch64",
    ("shared", "x86_64"): "manylinux2014_x86_64",
    ("arrow", "arm64"): "manylinux_2_28_aarch64",
    ("arrow", "x86_64"): "manylinux_2_28_x86_64",
}

OWN: Final = ("turnstile", "turnstile_predicates", "turnstile_release", "turnstile_rows")
"""Packages of this project."""

SERVICES: Final = {
    "dynamodb": (
        "BatchGetItem",
        "BatchWriteItem",
        "DeleteItem",
        "GetItem",
        "PutItem",
        "Query",
        "Scan",
        "TransactGetItems",
        "TransactWriteItems",
        "UpdateItem",
    ),
    "emr-serverless": ("StartJobRun",),
    "events": ("PutEvents",),
    "lambda": ("Invoke",),
    "s3": (
        "AbortMultipartUpload",
        "CompleteMultipartUpload",
        "CreateMultipartUpload",
        "CreateSession",
        "DeleteObject",
        "GetObject",
        "HeadBucket",
        "HeadObject",
        "ListObjectsV2",
        "PutObject",
        "UploadPart",
    ),
    "secretsmanager": ("GetSecretValue",),
    "ssm": ("GetParameter",),
    "sts": ("AssumeRole",),
}
"""Services and operations of AWS that functions call, or botocore for them. Tests compare those of
DynamoDB with the adapter's, and the services with those whose handlers a session has: both are in
modules that need packages, which are not there yet when a layer is built."""

_HERE: Final = Path(__file__).resolve().parent

PATTERNS: Final = _HERE / "patterns.json"
"""The regular expressions that starts compile, with their flags; bytes are written as Latin-1."""


class BuildError(Exception):
    """The layer cannot be built; the message has the cause and the remedy."""


def build(
    layer: str,
    folder: Path,
    architecture: str,
    *,
    compiled: bool = True,
    python: tuple[int, ...] = PYTHON,
    release: str = "",
) -> None:
    """Fills ``folder``, which must not have anything in it.

    Args:
        compiled: whether modules are compiled; needs ``python`` to run this.
        python: by which the functions run; another one than Lambda's for an emulator.
        release: version of the code; that of the checkout if it is empty.

    Raises:
        BuildError: another Python runs this, ``folder`` is not empty, or pip could not install a
            package.
    """
    if compiled and sys.version_info[:2] != python:
        needed, running = (".".join(map(str, version)) for version in (python, sys.version_info[:2]))
        raise BuildError(f"modules are compiled by Python {needed}, and this is {running}: run it by python{needed}")
    if folder.exists() and any(folder.iterdir()):
        raise BuildError(f"{folder} is not empty: name a folder that is")
    _install(layer, folder, architecture, python)
    shutil.rmtree(folder / "bin", ignore_errors=True)
    if layer == "shared":
        for package in OWN:
            shutil.copytree(_HERE / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "turnstile_release" / BUILT).write_text((release or version()) + "\n")
        leave_out_services(folder / "botocore" / "data")
        leave_out_documentation(folder / "botocore" / "data")
        leave_out_operations(folder / "botocore" / "data")
    if compiled:
        compile_modules(folder)
        if layer == "shared":
            pack_modules(folder)
            pack_patterns(folder)


def _install(layer: str, folder: Path, architecture: str, python: tuple[int, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile",
         "--only-binary=:all:", "--platform", PLATFORMS[layer, architecture], "--implementation", "cp",
         "--python-version", ".".join(map(str, python)), "--require-hashes", "--target", str(folder),
         "--requirement", str(_HERE / f"{layer}.txt")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise BuildError(
            f"the packages could not be installed; see that a package index can be reached: {done.stderr[-1_000:]}"
        )


def leave_out_services(data: Path) -> None:
    """Removes the descriptions of services that no function calls: 24 of botocore's 26 MB, and of
    the list of endpoints, which every cold start parses, 1.2 of 1.25 MB."""
    for folder in data.iterdir():
        if folder.is_dir() and folder.name not in SERVICES:
            shutil.rmtree(folder)
    for examples in data.glob("*/*/examples-1.json"):
        examples.unlink()
    listed = data / "endpoints.json"
    endpoints = json.loads(listed.read_bytes())
    for partition in endpoints["partitions"]:
        partition["services"] = {
            name: partition["services"][name] for name in SERVICES if name in partition["services"]
        }
    listed.write_text(json.dumps(endpoints, separators=(",", ":")))


def leave_out_documentation(data: Path) -> None:
    """Writes the descriptions of services as plain JSON without their texts. A client parses its
    service's description when it is made, most of it texts that no function shows: that of DynamoDB
    took as much of a cold start as all else about its client.
    """
    for packed in data.glob("*/*/*.json.gz"):
        description = json.loads(gzip.decompress(packed.read_bytes()))
        packed.with_suffix("").write_text(json.dumps(_without_texts(description), separators=(",", ":")))
        packed.unlink()


def leave_out_operations(data: Path) -> None:
    """Keeps of the descriptions of services only the called operations, with their shapes. A client
    parses all of its service's description when it is made: that of the secret's service has 256
    kB, of which one operation is called."""
    for name, operations in SERVICES.items():
        for path in (data / name).glob("*/service-2.json"):
            description = json.loads(path.read_text())
            kept = {each: described for each, described in description["operations"].items() if each in operations}
            shapes = _shapes_of(description["shapes"], kept)
            path.write_text(json.dumps({**description, "operations": kept, "shapes": shapes}, separators=(",", ":")))


def _shapes_of(shapes: dict[str, Any], operations: dict[str, Any]) -> dict[str, Any]:
    """Returns the shapes of ``operations`` and of their members."""
    reached: set[str] = set()
    left = [operations]
    while left:
        value: Any = left.pop()
        if isinstance(value, dict):
            name = value.get("shape")
            if isinstance(name, str) and name not in reached:
                reached.add(name)
                left.append(shapes[name])
            left += value.values()
        elif isinstance(value, list):
            left += value
    return {name: shape for name, shape in shapes.items() if name in reached}


def _without_texts(value: Any) -> Any:
    """``value`` without documentation. A member of a shape may have that name; then it is no text.
    The parameters of a client keep an empty text, because botocore reads it."""
    if isinstance(value, list):
        return [_without_texts(each) for each in value]
    if isinstance(value, dict):
        return {
            name: _with_empty_texts(each) if name == "clientContextParams" else _without_texts(each)
            for name, each in value.items()
            if not (name == "documentation" and isinstance(each, str))
        }
    return value


def _with_empty_texts(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: {**parameter, "documentation": ""} for name, parameter in parameters.items()}


def compile_modules(folder: Path) -> None:
    """Compiles every module below ``folder``. The compiled form is read without a look at the
    source's time, which packing changes; the source stays beside it, for tracebacks. Raises
    BuildError for a module that does not compile.
    """
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(
        folder, quiet=1, stripdir=str(folder), prependdir="/opt/python", invalidation_mode=mode, workers=0
    ):
        raise BuildError(f"a module below {folder} does not compile: see above")


FIRST: Final = (
    "turnstile",
    "turnstile.api",
    "turnstile.api.deferred",
    "turnstile.api.packs",
    "turnstile.api.patterns",
    "turnstile.api.starts",
)
"""Modules that are imported before the pack is open: they keep their compiled files."""

_HEADER_BYTES: Final = 16
"""Of a compiled file, before its code object."""


def pack_modules(folder: Path) -> None:
    """Writes the pack of all compiled modules below ``folder``, and removes their compiled files:
    another Python, for which the pack is of no use, could read them no more than the pack."""
    index: packs.Index = {}
    codes = bytearray()
    for source in sorted(folder.rglob("*.py")):
        compiled = Path(importlib.util.cache_from_source(str(source)))
        is_package = source.name == "__init__.py"
        parts = source.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if is_package else parts)
        code = compiled.read_bytes()[_HEADER_BYTES:]
        index[name] = (len(codes), len(code), is_package)
        codes += code
        if name not in FIRST:
            compiled.unlink()
    listed = marshal.dumps(index)
    header = packs.FORMAT + importlib.util.MAGIC_NUMBER + len(listed).to_bytes(4, "little")
    (folder / packs.NAME).write_bytes(header + listed + codes)
    for cache in list(folder.rglob("__pycache__")):
        if not any(cache.iterdir()):
            cache.rmdir()


def pack_patterns(folder: Path) -> None:
    """Writes the pack of the regular expressions that starts compile, as this Python compiles
    them."""
    (folder / patterns.NAME).write_bytes(patterns.pack(listed_patterns()))


def listed_patterns() -> list[patterns.Pattern]:
    """Returns the patterns of ``PATTERNS``."""
    listed = json.loads(PATTERNS.read_text())
    texts = [(pattern, flags) for pattern, flags in listed["str"]]
    raw = [(pattern.encode("latin-1"), flags) for pattern, flags in listed["bytes"]]
    return [*texts, *raw]


def main() -> None:
    """Builds one layer into a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layer", choices=sorted({layer for layer, _ in PLATFORMS}))
    parser.add_argument("folder", type=Path, help="where the packages go; an empty one, or none yet")
    parser.add_argument("--architecture", default="arm64", choices=sorted({name for _, name in PLATFORMS}))
    parser.add_argument(
        "--uncompiled", action="store_true", help="leave modules uncompiled; then any Python may run this"
    )
    parser.add_argument(
        "--python", default=".".join(map(str, PYTHON)), help="version; another one only for an emulator"
    )
    parser.add_argument("--version", default="", help="of the code, where there is no checkout with git to say it")
    options = parser.parse_args()
    try:
        python = tuple(map(int, options.python.split(".")))
        build(
            options.layer,
            options.folder,
            options.architecture,
            compiled=not options.uncompiled,
            python=python,
            release=options.version,
        )
    except BuildError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
