"""Roles for which a process starts, and settings with which a worker refuses to start."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from turnstile.events.core.cloud_events import FLEET
from turnstile.fleet.core.decisions import granule_of
from turnstile.fleet.core.roles import ALL, EVENTS, MAINTAIN, PUBLISH, SWEEP
from turnstile.fleet.core.shares import Share, Shares
from turnstile_server.children import children_of
from turnstile_server.errors import BadSettings
from turnstile_server.fleet.member import shares_file
from turnstile_server.light_work import LightWork
from turnstile_server.settings import ServerSettings, read_roles
from turnstile_server.struct_file import StructFile
from turnstile_server.worker import figures, work


def test_roles_are_read_in_their_order_and_each_once() -> None:
    assert read_roles("all") == ALL
    assert read_roles("maintain, publish,maintain") == (PUBLISH, MAINTAIN)
    assert read_roles("none", or_none=True) == ()


@pytest.mark.parametrize("text", ["", "none", "publish,", "publish,catalogs", "Publish"])
def test_a_role_that_is_not_known_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(BadSettings) as refused:
        read_roles(text)
    assert "publish,sweep,events,maintain" in refused.value.remedy and "none" not in refused.value.remedy


def test_a_server_that_leaves_work_to_others_has_to_be_in_a_fleet(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="share it"):
        ServerSettings(str(tmp_path), roles=(PUBLISH,))
    assert ServerSettings(str(tmp_path), roles=(), fleet=True).roles == ()
    assert ServerSettings(str(tmp_path)).roles == ALL


def test_a_process_has_the_processes_that_its_roles_need(tmp_path: Path) -> None:
    def names(**more: object) -> set[str]:
        return set(children_of(ServerSettings(str(tmp_path), **more)))  # type: ignore[arg-type]

    assert names() == {"background", "light-work"}
    assert names(fleet=True) == {"background", "light-work", "owner"}
    assert names(fleet=True, roles=(PUBLISH,)) == {"background", "owner"}
    assert names(fleet=True, roles=(MAINTAIN,), workers=0) == {"background", "light-work"}, "nobody asks a worker"


@pytest.mark.parametrize(
    ("store", "why"),
    [("sqlite:{folder}/none.db", "there is no store"), ("dynamodb:refs,objs", "does not answer")],
)
def test_a_worker_needs_a_store_that_is_there(
    store: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    settings = ServerSettings(
        str(tmp_path), store=store.format(folder=tmp_path), store_endpoint="http://127.0.0.1:9", fleet=True
    )
    with pytest.raises(BadSettings, match=why) as refused:
        work(settings)
    assert "--store" in refused.value.remedy
    assert not (tmp_path / "none.db").exists()


def test_progress_is_what_all_processes_counted() -> None:
    exposition = (
        "# HELP turnstile_light_work_files_total Files\n"
        'turnstile_light_work_files_total{kind="checkpoint"} 3.0\nturnstile_light_work_files_total{kind="checksum"} '
        "2.0\n"
        "turnstile_published_versions_total 1e+06\nturnstile_tables 4.0\n"
    )
    assert figures(exposition) == {"light_work_files": 5, "published": 1_000_000}


def test_i15_i19_light_work_is_done_by_the_owner_and_by_a_member_that_is_not_sure(tmp_path: Path) -> None:
    settings = ServerSettings(str(tmp_path), fleet=True, runtime=str(tmp_path))
    process = LightWork.__new__(LightWork)
    process._shares = shares_file(settings)
    assert process.does("main"), "nothing was said yet"
    now_ms = time.monotonic_ns() // 1_000_000
    granule = frozenset({granule_of(MAINTAIN, "main", 32)})
    later_ms = now_ms + 600_000
    for until_ms, mine, others, does in (
        (later_ms, frozenset[str](), granule, False), (later_ms, granule, frozenset[str](), True),
        (now_ms - 1, frozenset[str](), granule, True),
    ):  # fmt: skip
        shares_file(settings).write(Shares(until_ms, {MAINTAIN: Share(32, mine, others)}))
        assert process.does("main") is process.does("MAIN") is does
    assert process.does(FLEET)
    process._shares = None
    assert process.does("main"), "there is no fleet"


def test_a_struct_that_is_damaged_or_gone_is_as_if_nothing_had_been_said(tmp_path: Path) -> None:
    writer = StructFile(tmp_path / "shares", Shares())
    reader = StructFile(tmp_path / "shares", Shares())
    assert reader.read() == Shares()
    shares = Shares(
        5,
        {SWEEP: Share(1, frozenset({"sweep/0"}), frozenset()), EVENTS: Share(2, frozenset(), frozenset({"events/1"}))},
    )
    writer.write(shares)
    assert reader.read() == shares and reader.read() is reader.read()
    (tmp_path / "shares").write_bytes(b"{")
    assert reader.read() == Shares()
    (tmp_path / "shares").unlink()
    assert reader.read() == Shares()
