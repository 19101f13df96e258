"""Branches in the registry of Delta's proposal, over HTTP (ADR 85)."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tests.support.catalog import LAKE
from tests.support.fakes import delta
from tests.support.v1 import DEFAULT, CatalogApi, PlansApi
from turnstile.api.services import Services
from turnstile.api.settings import Settings
from turnstile.delta.core.definition import BRANCHES_DOMAIN
from turnstile.maintenance.state import derive
from turnstile.store.core.names import published_path

BRANCHES = "/v1/catalogs/main/branches"
DEV = "/v1/catalogs/main@{}/namespaces/default"


@pytest.fixture
def site(api: CatalogApi) -> PlansApi:
    return PlansApi(api)


def branched(site: PlansApi, name: str = "dev", **options: Any) -> dict[str, Any]:
    answer = site.http.post(BRANCHES, {"name": name, **options})
    assert answer.status == 201, answer.text
    return dict(answer.json)


def append(site: PlansApi, tables: str, file: str, name: str = "t") -> int:
    return site.add_files(site.table(name, tables)["table_id"], delta.add(file), isBlindAppend=True)


def post(site: PlansApi, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    answer = site.http.post(f"{BRANCHES}/{path}", body)
    assert answer.status == 200, answer.text
    return dict(answer.json)


def publish(site: PlansApi, loaded: dict[str, Any]) -> None:
    Services(cast("Any", site.world), Settings(lake_root=LAKE)).publisher.publish(loaded["table_id"])


def actions(site: PlansApi, loaded: dict[str, Any], version: int) -> list[dict[str, Any]]:
    """The actions of a commit, which is published first."""
    publish(site, loaded)
    read = site.world.storages.open(loaded["location"]).read(published_path(version), 100_000)
    assert read is not None
    return [json.loads(line) for line in read[0].splitlines()]


def registry(site: PlansApi, loaded: dict[str, Any], version: int) -> list[dict[str, Any]] | None:
    """The branches in the registry that a commit writes."""
    domains = [one["domainMetadata"] for one in actions(site, loaded, version) if "domainMetadata" in one]
    assert [domain["domain"] for domain in domains] in ([], [BRANCHES_DOMAIN])
    return list(json.loads(domains[0]["configuration"])["branches"]) if domains else None


def shown(site: PlansApi, loaded: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The branches in the registry that is in force by the log, as the HEAD's metadata has it."""
    publish(site, loaded)
    storage = site.world.storages.open(loaded["location"])
    domains = derive(storage, loaded["latest"], lambda state: state.domains)
    text = domains[BRANCHES_DOMAIN]["configuration"] if BRANCHES_DOMAIN in domains else None
    assert loaded["metadata"]["domains"].get(BRANCHES_DOMAIN) == text
    return None if text is None else list(json.loads(text)["branches"])


def test_by_default_no_commit_of_a_branch_has_a_domain(site: PlansApi) -> None:
    site.create("t")
    made = branched(site)
    assert made["delta_registry"] is False
    dev = DEV.format("dev")
    append(site, dev, "mine")
    append(site, DEFAULT, "theirs")
    own = site.table("t", dev)
    post(site, "dev/update")
    assert [registry(site, own, version) for version in range(3)] == [None, None, None]
    assert [list(one) for one in actions(site, own, 0)] == [["commitInfo"]]
    version = post(site, "dev/promote", {})["tables"][0]["version"]
    assert registry(site, site.table("t", DEFAULT), version) is None
    assert shown(site, site.table("t", DEFAULT)) is None


def test_i28_a_branch_is_open_in_its_own_log_and_published_in_the_catalogs(site: PlansApi) -> None:
    site.create("t")
    append(site, DEFAULT, "a")
    before = site.table("t", DEFAULT)
    made = branched(site, delta_registry=True)
    assert made["delta_registry"] is True
    assert site.http.get(BRANCHES + "/dev").json == made
    assert site.http.patch(BRANCHES + "/dev", {"days": 9}).json["delta_registry"] is True
    dev = DEV.format("dev")
    append(site, dev, "mine")
    own = site.table("t", dev)
    entry = {"branchId": own["table_id"], "name": "dev", "baseVersion": 1}
    opened = {**entry, "createdVersion": 1, "status": "open"}
    assert registry(site, own, 1) == shown(site, own) == [opened]
    assert own["location"] == f"{before['location']}/_branches/{opened['branchId']}"
    assert [site.table("t", DEFAULT)[name] for name in ("latest", "etag")] == [
        before[name] for name in ("latest", "etag")
    ]
    version = post(site, "dev/promote", {})["tables"][0]["version"]
    published = {**entry, "createdVersion": version, "status": "published", "publishedVersion": version}
    assert version == 2
    assert registry(site, site.table("t", DEFAULT), version) == shown(site, site.table("t", DEFAULT)) == [published]


def test_i28_branches_in_the_registry_do_not_conflict_with_each_other(site: PlansApi) -> None:
    site.create("t")
    for name in ("one", "two", "three"):
        branched(site, name, delta_registry=name != "three")
        append(site, DEV.format(name), name)
    assert post(site, "one/promote", {})["tables"][0]["version"] == 1
    assert site.http.get(BRANCHES + "/two/diff").json["conflicts"] == []
    assert post(site, "two/promote", {})["tables"][0]["version"] == 2
    found = shown(site, site.table("t", DEFAULT)) or []
    assert [(each["name"], each["publishedVersion"]) for each in found] == [("one", 1), ("two", 2)]
    post(site, "three/promote", {})
    assert registry(site, site.table("t", DEFAULT), 3) is None
    assert shown(site, site.table("t", DEFAULT)) == found
    branched(site, "four", delta_registry=True)
    append(site, DEV.format("four"), "four")
    own = shown(site, site.table("t", DEV.format("four"))) or []
    assert [(each["name"], each["status"]) for each in own] == [
        ("one", "published"), ("two", "published"), ("four", "open"),
    ]  # fmt: skip


def test_i28_an_update_moves_the_base_of_the_entry_and_brings_the_catalogs_registry(site: PlansApi) -> None:
    site.create("t")
    branched(site, "one", delta_registry=True)
    branched(site, delta_registry=True)
    dev = DEV.format("dev")
    append(site, DEV.format("one"), "one")
    append(site, dev, "mine")
    post(site, "one/promote", {})
    append(site, DEFAULT, "theirs")
    assert post(site, "dev/update")["tables"][0]["base"] == 2
    own = site.table("t", dev)
    found = shown(site, own) or []
    assert [(each["name"], each["baseVersion"], each["createdVersion"]) for each in found] == [
        ("one", 0, 1), ("dev", 2, 0),
    ]  # fmt: skip
    assert site.http.get(BRANCHES + "/dev/diff").json["conflicts"] == []
    assert post(site, "dev/promote", {})["tables"][0]["version"] == 3
    found = shown(site, site.table("t", DEFAULT)) or []
    assert [(each["name"], each["status"], each["baseVersion"]) for each in found] == [
        ("one", "published", 0), ("dev", "published", 2),
    ]  # fmt: skip


def test_i28_a_promotion_of_some_tables_registers_them_and_the_branch_stays_in_the_registry(site: PlansApi) -> None:
    for name in ("t", "u"):
        site.create(name)
    branched(site, delta_registry=True)
    dev = DEV.format("dev")
    for name in ("t", "u"):
        append(site, dev, "mine", name)
    post(site, "dev/promote", {"tables": ["default.t"]})
    assert [each["status"] for each in shown(site, site.table("t", DEFAULT)) or []] == ["published"]
    assert shown(site, site.table("u", DEFAULT)) is None
    append(site, dev, "again")
    own = shown(site, site.table("t", dev)) or []
    assert [(each["status"], each["baseVersion"]) for each in own] == [("published", 0), ("open", 1)]
    post(site, "dev/promote", {})
    found = shown(site, site.table("t", DEFAULT)) or []
    assert [each["baseVersion"] for each in found] == [0, 1]
    assert len({each["branchId"] for each in found}) == 2
    assert [each["status"] for each in shown(site, site.table("u", DEFAULT)) or []] == ["published"]


def test_a_table_without_the_feature_of_domains_has_no_registry(site: PlansApi, monkeypatch: Any) -> None:
    features = [feature for feature in delta.WRITER_FEATURES if feature != "domainMetadata"]
    monkeypatch.setattr(delta, "WRITER_FEATURES", features)
    site.create("t")
    branched(site, delta_registry=True)
    dev = DEV.format("dev")
    append(site, dev, "mine")
    assert shown(site, site.table("t", dev)) is None
    version = post(site, "dev/promote", {})["tables"][0]["version"]
    assert registry(site, site.table("t", DEFAULT), version) is shown(site, site.table("t", DEFAULT)) is None


def test_a_registry_that_is_none_of_the_proposal_stays(site: PlansApi) -> None:
    id = site.create("t")["table_id"]
    site.add_files(id, {"domainMetadata": {"domain": BRANCHES_DOMAIN, "configuration": "[]", "removed": False}})
    branched(site, delta_registry=True)
    append(site, DEV.format("dev"), "mine")
    version = post(site, "dev/promote", {})["tables"][0]["version"]
    assert not any("domainMetadata" in one for one in actions(site, site.table("t", DEFAULT), version))
