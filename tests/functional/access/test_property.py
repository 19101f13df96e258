"""With any grants: no principal reads, commits or gets keys without the right (I12).

The oracle is written from Unity Catalog's words, not from the rules in the core: a privilege counts
from where it was granted downwards; USE of catalog and schema, or owning them, comes before
everything; then for reading SELECT, for committing MODIFY, for keys to write both, or owning the
table.
"""

from __future__ import annotations

import functools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.access.operations import SALES, V1
from tests.support.access.realm import B, Realm
from tests.support.examples import examples

PRIVILEGES = {
    "catalog": ["USE CATALOG", "USE SCHEMA", "CREATE SCHEMA", "CREATE TABLE", "SELECT", "MODIFY"],
    "schema": ["USE SCHEMA", "CREATE SCHEMA", "CREATE TABLE", "SELECT", "MODIFY"],
    "table": ["SELECT", "MODIFY"],
}
NAMES = {"catalog": "main", "schema": "main.sales", "table": "main.sales.t1"}
CONTENT = "secret.parquet"
KEYS = "storage-credentials"

Grants = frozenset[tuple[str, str, str]]
"""Securable type, principal, privilege."""

GRANTS = st.frozensets(
    st.one_of(
        *(
            st.tuples(st.just(kind), st.sampled_from(["member", "team", "bob"]), st.sampled_from(held))
            for kind, held in PRIVILEGES.items()
        )
    ),
    max_size=8,
)
OWNERS = st.fixed_dictionaries({kind: st.sampled_from(["", "", "member", "team", "bob"]) for kind in NAMES})


@functools.cache
def realm() -> Realm:
    return Realm()


class Oracle:
    """The rights of the principal ``member``, which is in ``team``."""

    def __init__(self, grants: Grants, owners: dict[str, str]) -> None:
        def held(*kinds: str) -> set[str]:
            return {right for kind, name, right in grants if kind in kinds and name in ("member", "team")}

        def owns(kind: str) -> bool:
            return owners[kind] in ("member", "team")

        catalog = held("catalog")
        schema = held("catalog", "schema")
        table = held("catalog", "schema", "table")
        uses = ("USE CATALOG" in catalog or owns("catalog")) and ("USE SCHEMA" in schema or owns("schema"))
        self.read = uses and ("SELECT" in table or owns("table"))
        self.commit = uses and ("MODIFY" in table or owns("table"))
        self.write_keys = uses and ({"SELECT", "MODIFY"} <= table or owns("table"))


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(grants=GRANTS, owners=OWNERS)
def test_i12_no_set_of_grants_allows_what_it_does_not_say(grants: Grants, owners: dict[str, str]) -> None:
    here = realm().copy()
    may = Oracle(grants, owners)
    for kind, principal, privilege in sorted(grants):
        here.grant(kind, NAMES[kind], principal, privilege)
    for kind, owner in owners.items():
        here.own(kind, NAMES[kind], owner)
    here.open()
    table = f"/v1/tables/{here.table}"
    before = here.state()

    commits = here.ask("member", "GET", f"{table}/commits", content="true")
    loaded = here.ask("member", "GET", f"{SALES}/tables/t1", content="true")
    assert (commits.status == 200) == (CONTENT in commits.text) == (CONTENT in loaded.text) == may.read
    keys = f"{V1}/catalogs/main/schemas/sales/tables/t1/credentials"
    for operation, allowed in (("READ", may.read), ("READ_WRITE", may.write_keys)):
        assert (KEYS in here.ask("member", "GET", keys, operation=operation).text) == allowed
        asked = {"table_id": here.table, "operation": operation}
        answer = here.ask("member", "POST", f"{B}/temporary-table-credentials", asked)
        assert (answer.status, "url" in answer.text) == ((200, True) if allowed else (403, False))
    if loaded.status == 403:  # whoever may load it gets names, and files are made for them
        assert here.state() == before

    before = here.state()
    answer = here.ask("member", "POST", f"{table}/commits", here.append(2, "mine"))
    assert answer.status == (200 if may.commit else 403), answer.text
    assert (here.head().latest == 2) == may.commit
    if not may.commit:
        assert here.state() == before
    if not may.read:
        assert CONTENT not in answer.text
