"""Commands on announced transactions: their requests, and their output as text and as JSON."""

from __future__ import annotations

import json
from typing import Any

from tests.support.cli import run, service

ID = "6e6f0fb6-3bd5-4b1c-a6a4-b7e6a1f1a6a1"
TABLE = "11111111-1111-4111-8111-111111111111"
PATH = f"/v1/transactions/{ID}"
ENTRY: dict[str, Any] = {
    "id": ID, "state": "open", "commits": [{"table_id": TABLE, "version": 5}], "reads": [], "isolation": "snapshot",
    "owner": "ann", "attempt": 1, "created": 1_770_000_000_000, "until": 1_770_086_400_000,
}  # fmt: skip


def test_list_reads_every_page_and_passes_the_state_on() -> None:
    pages = {
        "GET /v1/transactions?state=open": (200, {"transactions": [ENTRY], "next_page_token": ID}),
        f"GET /v1/transactions?state=open&page_token={ID}": (200, {"transactions": []}),
    }
    with service(pages) as canned:
        ended = run("transactions", "list", "--state", "open", "--url", canned.url, "--output", "json")
        assert json.loads(ended.stdout) == {"transactions": [ENTRY]}
        assert ID in run("transactions", "list", "--state", "open", "--url", canned.url).stdout


def test_list_names_the_rows_that_cannot_be_read() -> None:
    damaged = [{"key": "main/transaction/x", "message": "row 'main/transaction/x' cannot be read: no row"}]
    with service({"GET /v1/transactions": (200, {"transactions": [ENTRY], "unreadable": damaged})}) as canned:
        told = json.loads(run("transactions", "list", "--url", canned.url, "--output", "json").stdout)
        shown = run("transactions", "list", "--url", canned.url).stdout
    assert told == {"transactions": [ENTRY], "unreadable": damaged}
    assert ID in shown and "unreadable row 'main/transaction/x'" in shown


def test_show_says_what_became_of_it() -> None:
    with service({f"GET {PATH}": (200, ENTRY)}) as canned:
        assert json.loads(run("transactions", "show", ID, "--url", canned.url, "-o", "json").stdout) == ENTRY
        shown = run("transactions", "show", ID, "--url", canned.url).stdout
    assert "open" in shown and TABLE in shown and "by ann, attempt 1" in shown


def test_resume_says_whether_it_was_committed_now_or_before() -> None:
    answer = {"outcome": "replayed", "id": ID, "commits": [{"table_id": TABLE, "commit": {"version": 5}}]}
    with service({f"GET {PATH}": (200, ENTRY), f"POST {PATH}/resume": (200, answer)}) as canned:
        assert json.loads(run("transactions", "resume", ID, "--url", canned.url, "-o", "json").stdout) == answer
        assert "was committed already" in run("transactions", "resume", ID, "--url", canned.url).stdout


def test_one_of_a_catalog_is_resumed_there_and_its_slack_is_shown() -> None:
    answer = {"outcome": "applied", "id": ID, "commits": []}
    entry = {**ENTRY, "catalog": "main", "reads": [{"table_id": TABLE, "version": 3, "slack": 2}]}
    resume = f"POST /v1/catalogs/main/transactions/{ID}/resume"
    with service({f"GET {PATH}": (200, entry), resume: (200, answer)}) as canned:
        assert "is committed now" in run("transactions", "resume", ID, "--url", canned.url).stdout
        shown = run("transactions", "show", ID, "--url", canned.url).stdout
    assert "main" in shown and "read, slack 2" in shown


def test_abort_says_what_the_entry_says_then() -> None:
    aborted = {**ENTRY, "state": "aborted", "settled": 1_770_000_001_000}
    with service({f"DELETE {PATH}": (200, aborted)}) as canned:
        assert json.loads(run("transactions", "abort", ID, "--url", canned.url, "-o", "json").stdout) == aborted


def test_a_refusal_ends_with_its_code_and_words() -> None:
    refused = {"error": {"type": "TransactionAborted", "message": "it was aborted", "remedy": "run it again"}}
    missing = {"error": {"type": "NoSuchTransaction", "message": "there is none"}}
    with service({f"POST {PATH}/resume": (409, refused), f"GET {PATH}": (200, ENTRY)}) as canned:
        ended = run("transactions", "resume", ID, "--url", canned.url)
        assert ended.exit_code == 4 and "TransactionAborted" in ended.stderr and "run it again" in ended.stderr
    with service({f"GET {PATH}": (404, missing)}) as canned:
        assert run("transactions", "resume", ID, "--url", canned.url).exit_code == 3
        assert run("transactions", "show", ID, "--url", canned.url).exit_code == 3


def test_reservations_are_listed_with_what_they_have_and_wait_for() -> None:
    listed = {
        "reservations": [{"id": ID, "state": "waiting", "held": [], "wanted": [TABLE], "until": 1_770_000_000_000}]
    }
    with service({"GET /v1/reservations": (200, listed)}) as canned:
        assert json.loads(run("transactions", "reservations", "--url", canned.url, "-o", "json").stdout) == listed
        shown = run("transactions", "reservations", "--url", canned.url).stdout
    assert ID in shown and "waiting" in shown
