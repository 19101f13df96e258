"""Ids that are computed and must be found again by a later state of the code (I3, I9, I22, ADR
48)."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import turnstile
from turnstile.delta.core.reservations import holder_of
from turnstile.ingest.core.identity import digest_of as rows_digest
from turnstile.ingest.core.identity import identity_of
from turnstile.planning.core.roots import root_id
from turnstile.store.core.names import inline_unique
from turnstile.store.core.rows import Space, app_key, identity_obj, identity_objs, inline_obj, metadata_obj

LIST: Final = Path(__file__).parent / "computed_ids.txt"
RULE: Final = f"""

What is computed is not what {LIST.name} says. A store that an earlier state of the code wrote has
the old values, and is opened by this one; for hours both run side by side. Decide which holds:

* A value of the part "ids" changed: nothing that is stored is found any more. Look for the new and
  for the old value, as long as rows with the old one may live (as identity_objs does), write the
  old one until no older code runs, and correct the list.
* A new function hashes: put it into the part "functions". If what it returns is stored, or sent to
  a client, and looked for again later, give it a line in the part "ids", too.
* A token's members changed: clients hold tokens of before. An appended member with a default is
  understood by older and newer code; anything else must be refused as "of another state" and begun
  again by the client.
"""
UUID: Final = "6f0f2a6e-3c1f-4a7e-9d0a-0a3a52f7c101"
STAGED: Final = f"{7:020d}.{UUID}.json"
INLINE: Final = f"{7:020d}.{inline_unique('txn-1')}.json"
"""Name of an inline commit."""


def ids() -> Iterator[str]:
    """One line for each computed id, of a fixed example."""
    space = Space("realm")
    for name, method in inspect.getmembers(space, inspect.ismethod):
        if not name.startswith("_"):
            count = len(inspect.signature(method).parameters)
            arguments = [f"Arg{n}" for n in range(count)]
            if name == "fleet_moves":
                arguments[-1] = 7  # type: ignore[call-overload]
            yield f"Space.{name} {method(*arguments)}"
    yield f"app_key {app_key('app-1')}"
    yield f"inline_unique {inline_unique('txn-1')}"
    for what, identity in (("txn", "txn-1"), ("staged", STAGED), ("inline", INLINE)):
        yield f"identity_obj {what} {identity_obj(UUID, identity)}"
        yield f"identity_objs {what} {' '.join(identity_objs(UUID, identity))}"
    yield f"inline_obj {inline_obj(UUID, 1_795_717_104_252, b'content')}"
    yield f"metadata_obj {metadata_obj(UUID, 7, b'content')}"
    yield f"root_id {root_id(UUID, 7, b'content')}"
    yield f"holder_of {holder_of('ann', UUID)}"
    yield f"rows_digest {rows_digest(b'rows', 'text/csv')}"
    yield f"rows_identity key {identity_of('ann', UUID.upper(), None, None).text}"
    yield f"rows_identity producer {identity_of('ann', None, 'p', '7').text}"


def functions() -> Iterator[str]:
    """Each function of the layer that hashes, or computes a uuid."""
    for path, tree in _modules():
        for scope in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            if any(_hashes(node) for node in ast.walk(scope)):
                yield f"{path} {scope.name}"


def tokens() -> Iterator[str]:
    """Each record that clients send back as a token, with its members."""
    for path, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "unseal" and len(node.args) == 3:
                module = importlib.import_module("turnstile." + str(path.with_suffix("")).replace("/", "."))
                record = getattr(module, ast.unparse(node.args[1])).type
                yield f"{path} {record.__name__}: {' '.join(record.__struct_fields__)}"


def _modules() -> Iterator[tuple[Path, ast.Module]]:
    root = Path(turnstile.__file__).parent
    for path in sorted(root.rglob("*.py")):
        yield path.relative_to(root), ast.parse(path.read_text())


def _hashes(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func)
    return called.startswith("hashlib.") or called in ("uuid.uuid5", "blake2b", "md5")


def computed() -> str:
    """All parts, as the list has them."""
    parts = {"ids": ids(), "functions": functions(), "tokens": tokens()}
    return "\n".join(f"-- {title}\n" + "".join(f"{line}\n" for line in lines) for title, lines in parts.items())


def test_i3_a_computed_id_a_hash_or_a_token_that_changes_is_noticed() -> None:
    assert computed() == LIST.read_text(), RULE


def test_i3_an_identity_is_looked_for_under_the_id_of_before_too() -> None:
    digest = hashlib.sha256(b"txn-1").hexdigest()[:40]
    assert identity_objs(UUID, "txn-1") == (identity_obj(UUID, "txn-1"), f"identity/{UUID}/{digest}")
    assert identity_objs(UUID, STAGED) == (identity_obj(UUID, STAGED),), "a staged name's id never changed"
