"""What a warm request takes of CPU time, counted in calls of Python functions, from the gateway's
event to a socket and back: botocore alone takes 2,500 for one UpdateItem
(benchmarks/request_cpu.py, docs/performance.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.python_calls import python_calls
from tests.support.store.canned import CannedAnswer, WarmCommit, answer, refusal, serving
from turnstile.adapters.opening import dynamodb, open_world
from turnstile.api import apps
from turnstile.api.services import Services
from turnstile.store.core.rows import Space

Record = Callable[[str, object], None]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Credentials of one's own, and clients that end with the test."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("TURNSTILE_AUTHENTICATION", "none")
    yield
    dynamodb.cache_clear()


@pytest.fixture(scope="module")
def commit() -> WarmCommit:
    """A commit of a table that carries eight others."""
    return WarmCommit(Space("default"))


def warm_calls(work: Callable[[], object]) -> int:
    """Calls once everything is imported, cached and connected."""
    for _ in range(3):
        work()
    return min(python_calls(work) for _ in range(3))


def commit_calls(commit: WarmCommit, update: CannedAnswer, event: dict[str, Any], status: int) -> int:
    with serving({"UpdateItem": update, **commit.reads}) as url:
        world = open_world(refs_table="refs", objs_table="objs", realm="default", endpoint_url=url)
        services = Services(world)
        app = apps.commit(services)
        assert app(event, None)["statusCode"] == status
        return warm_calls(lambda: (commit.warm(services.ratifier), app(event, None)))


def test_a_warm_update_takes_at_most_850_calls(commit: WarmCommit, record_property: Record) -> None:
    key = {"key": {"S": commit.key}}
    with serving({"UpdateItem": answer({"Attributes": commit.item})}) as url:
        client = dynamodb(url)
        calls = warm_calls(lambda: client.update_item(TableName="refs", Key=key, UpdateExpression="SET a = b"))
    record_property("calls", calls)
    assert calls <= 850


def test_a_warm_inline_commit_takes_at_most_1450_calls(commit: WarmCommit, record_property: Record) -> None:
    calls = commit_calls(commit, answer({"Attributes": commit.item}), commit.event, 200)
    record_property("calls", calls)
    assert calls <= 1_450


def test_a_warm_commit_that_is_refused_takes_at_most_1580_calls(commit: WarmCommit, record_property: Record) -> None:
    calls = commit_calls(commit, refusal(commit.item), commit.rival, 409)
    record_property("calls", calls)
    assert calls <= 1_580
