"""What has to hold of a checkpoint before anything goes that only it would still say (I24, I15)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.damage.checkpointed import Checkpointed
from turnstile.delta.log.files import list_log
from turnstile.delta.soundness.checkpoints import Judgement, NotJudged, judge_checkpoint
from turnstile.maintenance import reliance
from turnstile.maintenance.reliance import unreliable


def why(table: Checkpointed, version: int = 20) -> str:
    return unreliable(table.storage, version, list_log(table.storage).upto(table.head.floor))


def test_i24_a_whole_checkpoint_that_says_what_the_log_before_it_says_is_relied_on() -> None:
    table = Checkpointed()
    assert why(table, 20) == "" and why(table, 10) == ""


def test_i24_an_empty_checkpoint_is_not_relied_on() -> None:
    table = Checkpointed()
    table.storage.replace(table.checkpoint_of(20), b"")
    assert why(table).startswith(f"{table.checkpoint_of(20)} is empty, or one of several parts")


def test_i24_a_damaged_checkpoint_is_not_relied_on_and_its_fault_is_said_with_the_remedy() -> None:
    table = Checkpointed()
    found = table.storage.read(table.checkpoint_of(20))
    assert found is not None
    table.storage.replace(table.checkpoint_of(20), found[0][: len(found[0]) // 2])
    fault = judge_checkpoint(table.storage, 20, list_log(table.storage)).faults[0]
    assert why(table) == f"{fault.message}; {fault.remedy}"


def test_i24_a_checkpoint_that_was_not_judged_is_not_relied_on(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Checkpointed()
    path = table.checkpoint_of(20)
    monkeypatch.setattr(
        reliance, "judge_checkpoint", lambda *_, **__: Judgement((), (NotJudged(path, "it is of a newer kind"),))
    )
    assert why(table) == f"{path} was not read: it is of a newer kind"


def test_i24_a_checkpoint_from_which_no_state_begins_is_not_relied_on(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Checkpointed()
    real = reliance.open_state

    def passes_over(storage: Any, version: int, files: Any, without: tuple[int, ...] = ()) -> Any:
        return real(storage, version, files, without=(*without, 20))

    monkeypatch.setattr(reliance, "open_state", passes_over)
    assert why(table).startswith(f"{table.checkpoint_of(20)} cannot be read; ")


@pytest.mark.parametrize(
    ("version", "changed", "start"), [(20, 15, "the checkpoint of version 10"), (10, 5, "version 0")]
)
def test_i24_a_checkpoint_that_has_other_files_than_the_log_before_it_is_not_relied_on(
    version: int, changed: int, start: str
) -> None:
    table = Checkpointed()
    table.replace_file(changed)
    said = why(table, version)
    assert f"has other files than {start} and the commits after it: {version} files, and {version}" in said


def test_i24_a_checkpoint_is_not_compared_with_what_an_earlier_clean_up_removed() -> None:
    table = Checkpointed()
    table.remove_before(15)
    assert why(table) == ""


def test_i24_a_log_before_it_that_cannot_be_read_keeps_everything() -> None:
    table = Checkpointed()
    table.rewrite(15, b"{")
    assert "cannot be compared with an older start" in why(table)
