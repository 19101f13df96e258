"""Ids that are computed and must be found again by a later state of the code (I3, I9, I22, ADR
48)."""

from __future__ import annotations

import ast
import hashlib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

from tests.support.repository import ROOT, full_name, imported_names, tracked
from tests.support.store.computed_values import STAGED_NAME, UUID, files, ids
from turnstile.store.core.rows import identity_obj, identity_objs

LIST: Final = Path(__file__).parent / "computed_ids.txt"
RULE: Final = f"""

What is computed is not what {LIST.name} says. A store that an earlier state of the code wrote has
the old values, and is opened by this one; for hours both run side by side. Decide which holds:

* A value of the part "ids" changed: nothing that is stored is found any more. Look for the new and
  for the old value, as long as rows with the old one may live (as identity_objs does), write the
  old one until no older code runs, and correct the list. Or write the rows again under the new
  value when a store is opened, while no older code runs; or say at the computation that the value
  is not looked for again.
* A new function hashes: put it into the part "functions". If its value is stored, or sent to a
  client, and looked for again later, give it a line in the part "ids", too
  (tests/support/store/computed_values.py); otherwise the list says that it has no example.
* A name of the part "files" changed: files under the old name are neither read nor removed. Read
  both names, or move the files when they are met, or show that the file is made again and that gc
  removes the old one.
* A token's members changed: clients hold tokens of before. An appended member with a default is
  understood by older and newer code; anything else must be refused as "of another state" and begun
  again by the client.

The list is written anew by LIST.write_text(computed()) of this module.
"""

HASHES: Final = ("hashlib", "hmac", "zlib.crc32", "uuid.uuid3", "uuid.uuid5")
"""Modules and functions that compute a value from another."""
NO_EXAMPLE: Final = " - no example: not looked for again"
COMPARISONS: Final = frozenset({"hmac.compare_digest"})
ROOTS: Final = ("layers", "server", "cli", "functions", "spark_client", "python_client", "http_client", "infra")
"""Folders of product code."""


def functions() -> Iterator[str]:
    """Yields each function of the product that hashes, or computes a uuid, and whether an example
    of the part "ids" runs it."""
    run = run_by(ids)
    for name in _modules():
        text = (ROOT / name).read_text()
        if not any(one.rpartition(".")[2] in text for one in HASHES):
            continue
        tree = ast.parse(text)
        imports = imported_names(tree)
        for scope in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            if any(_hashes(node, imports) for node in ast.walk(scope)):
                yield f"{name} {scope.name}" + ("" if (name, scope.name) in run else NO_EXAMPLE)


def run_by(work: Callable[[], Iterable[object]]) -> set[tuple[str, str]]:
    """Modules and names of the project's functions that run while ``work`` yields all it has."""
    found: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            found.add((frame.f_code.co_filename.removeprefix(f"{ROOT}/"), frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        list(work())
    finally:
        sys.setprofile(before)
    return found


def tokens() -> Iterator[str]:
    """Yields each record that clients send back as a token, with its members."""
    for name in _modules():
        text = (ROOT / name).read_text()
        for node in ast.walk(ast.parse(text)) if "unseal(" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "unseal" and len(node.args) == 3:
                module = importlib.import_module(".".join(Path(name).with_suffix("").parts[1:]))
                record = getattr(module, ast.unparse(node.args[1])).type
                yield f"{name} {record.__name__}: {' '.join(record.__struct_fields__)}"


def _modules() -> list[str]:
    return sorted(name for name in tracked() if name.endswith(".py") and name.partition("/")[0] in ROOTS)


def _hashes(node: ast.AST, imports: dict[str, str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = full_name(node.func, imports)
    return called not in COMPARISONS and any(called == one or called.startswith(f"{one}.") for one in HASHES)


def computed() -> str:
    """All parts, as the list has them."""
    parts = {"ids": ids(), "functions": functions(), "tokens": tokens(), "files": files()}
    return "\n".join(f"-- {title}\n" + "".join(f"{line}\n" for line in lines) for title, lines in parts.items())


def test_i3_a_computed_id_a_hash_or_a_token_that_changes_is_noticed() -> None:
    assert computed() == LIST.read_text(), RULE


def test_i3_an_identity_is_looked_for_under_the_id_of_before_too() -> None:
    digest = hashlib.sha256(b"txn-1").hexdigest()[:40]
    assert identity_objs(UUID, "txn-1") == (identity_obj(UUID, "txn-1"), f"identity/{UUID}/{digest}")
    assert identity_objs(UUID, STAGED_NAME) == (identity_obj(UUID, STAGED_NAME),), "a staged name's id never changed"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import hashlib\nhashlib.sha256(b'')", True),
        ("from hashlib import blake2b as b2\nb2(b'')", True),
        ("import hmac\nhmac.digest(k, b'', 'sha256')", True),
        ("import zlib\nzlib.crc32(b'')", True),
        ("from uuid import uuid5\nuuid5(x, y)", True),
        ("import hmac\nhmac.compare_digest(a, b)", False),
        ("import uuid\nuuid.uuid4()", False),
    ],
)
def test_every_way_to_hash_is_seen(text: str, expected: bool) -> None:
    tree = ast.parse(text)
    assert any(_hashes(node, imported_names(tree)) for node in ast.walk(tree)) is expected
