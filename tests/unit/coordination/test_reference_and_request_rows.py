"""What the writes of rows beside tables and catalogs change, said exactly (I3, I6)."""

from __future__ import annotations

import json

import pytest

from tests.support.fakes.refs import FakeRefs
from turnstile.api.http.responses import MOST
from turnstile.catalog.core.request_rows import RequestOutcome, request_row
from turnstile.coordination.core.named_ref import (
    DELETED,
    LIVE,
    NamedRef,
    create,
    delete,
    first_token,
    regrant,
    revive,
    swap,
    token_of,
)
from turnstile.coordination.core.ref_rights import OWN, READ
from turnstile.store.core.errors import AlreadyExists, ErrorType, StateConflict
from turnstile.store.core.evaluate import apply_actions
from turnstile.store.core.writes import Change, Row
from turnstile.store.ports import Accepted, Rejected

FIRST = create("k", "r", "v0", "q0", 1).row
GONE = apply_actions(FIRST, delete("k", FIRST["token"], "q1", 2).actions)
REVIVED = revive("k", NamedRef.from_row(GONE), "v2", "q2", 3)


@pytest.mark.parametrize(
    ("write", "row", "sets"),
    [
        (swap("k", FIRST["token"], "v1", "q1", 2), FIRST,
         {"token": token_of(1, "q1", FIRST["token"]), "version": 1, "changed_at": 2}),
        (delete("k", FIRST["token"], "q1", 2), FIRST,
         {"token": token_of(1, "q1", FIRST["token"]), "version": 1, "changed_at": 2, "state": DELETED}),
        (REVIVED, GONE, {"token": first_token(2, "q2", 3), "version": 2, "changed_at": 3, "state": LIVE,
                         "made": first_token(2, "q2", 3), "created": 3}),
    ],
)  # fmt: skip
def test_i6_a_reference_changes_exactly_this(write: Change, row: Row, sets: dict[str, object]) -> None:
    after = apply_actions(row, write.actions)
    changed = {name: value for name, value in after.items() if value != row[name]}
    assert len(changed.pop("recent")) == len(row["recent"]) + 1
    assert changed == sets


def test_i12_rights_are_those_of_one_life_of_a_reference() -> None:
    owned = create("k", "r", "v0", "q0", 1, owner="ann").row
    gone = apply_actions(owned, delete("k", owned["token"], "q1", 2).actions)
    tombstone = NamedRef.from_row(gone)
    assert owned["rights"] == gone["rights"] == {"ann": OWN}
    assert apply_actions(gone, revive("k", tombstone, "v2", "q2", 3, owner="bob").actions)["rights"] == {"bob": OWN}
    assert "rights" not in apply_actions(gone, revive("k", tombstone, "v2", "q2", 3).actions)
    assert apply_actions(owned, regrant("k", tombstone, {"bob": READ}).actions) == {**owned, "rights": {"bob": READ}}
    assert "rights" not in apply_actions(owned, regrant("k", tombstone, {}).actions)


def test_i3_what_became_of_a_request_is_written_once() -> None:
    refs = FakeRefs()
    assert isinstance(refs.write(request_row("k", "asked", 1, status=409, error=AlreadyExists("taken"))), Accepted)
    assert isinstance(refs.write(request_row("k", "asked", 2)), Rejected)
    assert refs.rows["k"]["status"] == 409


def test_i3_of_a_refusal_a_small_row_keeps_what_can_be_repeated() -> None:
    long = "x" * 90_000
    details = {"limit": 5, "live": True, "of": [1], "no": None, "long": long, "after": "y"}
    error = StateConflict(ErrorType.CANNOT_RESET, long, field=long, remedy=long, **details)
    row = request_row("k", "asked", 1, status=409, error=error).row
    assert len(str(row)) < 4_000
    outcome = RequestOutcome.from_row(row)
    assert outcome.type == "CannotReset"
    assert json.loads(outcome.details) == {"limit": 5, "live": True, "of": [1], "no": None, "after": "y"}
    assert error.message.startswith(outcome.message) and outcome.message == outcome.field == outcome.remedy
    assert len(outcome.message) > MOST
    bare = RequestOutcome.from_row(request_row("k", "asked", 1).row)
    assert (bare.field, bare.remedy, bare.details) == (None, None, "{}")


@pytest.mark.parametrize(("count", "kept"), [(10, 10), (100, 25)])
def test_i3_a_refusal_that_is_repeated_names_members_also_where_the_winners_are_too_long(count: int, kept: int) -> None:
    """A client whose first answer was lost rebases by them."""
    members = [
        {
            "table_id": f"6f0f2a6e-3c1f-4a7e-9d0a-0a3a52f7c1{at:02d}",
            "type": "CommitVersionConflict",
            "message": "version 2 is not free: another commit is that version (latest is 2)",
            "field": f"commits[{at}].version",
            "latest": 2,
        }
        for at in range(count)
    ]
    winners = [{"version": 2, "content": "x" * 5_000}]
    error = StateConflict(
        ErrorType.TRANSACTION_CONFLICT, "nothing was applied", members=[{**one, "winners": winners} for one in members]
    )
    row = request_row("k", "asked", 1, status=409, error=error).row
    assert json.loads(RequestOutcome.from_row(row).details) == {"members": members[:kept]}
