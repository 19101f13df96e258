"""The tests that ``make test-quick`` leaves out of those that ``make test`` runs: each takes a
second or more of a core.

A table, in one place, since it follows measured times (``pytest --durations=80``) and not subjects.
Tests that need a service with DynamoDB's or S3's API are left out beside it. An entry that matches
no test fails a test.
"""

from __future__ import annotations

from typing import Final

import pytest

LONG: Final = (
    # Servers and their clients that start, die and start again.
    "tests/e2e/test_cli.py",
    "tests/e2e/test_queries_and_references.py",
    "tests/e2e/test_relocation.py",
    "tests/e2e/test_relocation_on_s3.py",
    "tests/e2e/test_server_backups.py",
    "tests/e2e/test_server_deaths.py",
    "tests/e2e/test_server_events.py",
    "tests/e2e/test_server_lifecycle.py",
    "tests/e2e/test_server_store.py",
    "tests/e2e/test_server_requests.py::test_figures_add_up_over_the_processes_that_answer",
    "tests/functional/fleet/test_hot_catalog.py",
    "tests/functional/fleet/test_several_servers.py",
    "tests/functional/fleet/test_workers.py",
    "tests/unit/server/test_workers.py::test_a_worker_needs_a_store_that_is_there",
    "tests/unit/fleet/test_fleet_costs.py::test_a_beat_costs_little_more_in_a_fleet_of_any_size",
    "tests/functional/benchmarks/test_streaming.py::test_writers_on_one_table_commit_every_batch_once",
    "tests/functional/deploy/test_emulator.py",
    "tests/functional/deploy/test_recorded_calls.py",
    "tests/repository/test_docs_snippets.py::test_what_is_marked_runs_against_a_server",
    # SQLite: processes that are killed, lost power, full disks.
    "tests/contract/adapters/test_sqlite_faults.py",
    "tests/contract/adapters/test_sqlite_power.py",
    "tests/contract/adapters/test_sqlite_processes.py",
    # Timed-out and broken answers of HTTP.
    "tests/contract/adapters/test_storage_s3.py",
    "tests/contract/adapters/test_torn_answers.py",
    "tests/contract/adapters/test_transport.py",
    # Simulation: planted mistakes, scenarios beside that of tables, and SQLite.
    "tests/simulation/test_noted.py::test_i11_a_mistake_planted_in_notes_is_found",
    "tests/simulation/test_on_sqlite.py",
    "tests/simulation/test_reused.py",
    "tests/simulation/test_scenarios.py",
    "tests/simulation/test_simulation.py::test_a_failing_run_is_made_smaller_and_printed_with_its_seed_and_trace",
    "tests/simulation/test_simulation.py::test_i1_to_i11_a_planted_mistake_is_found",
    # The largest of gc's planted mistakes and crashes.
    "tests/unit/gc/test_iceberg_files.py::test_a_planted_mistake_is_found",
    "tests/unit/gc/test_log.py::test_i10_time_travel_and_the_catalogs_history_decide_where_they_are_longer",
    "tests/unit/gc/test_log.py::test_i15_a_crash_after_any_removal_leaves_a_log_that_reads_and_the_next_run_goes_on",
    # Processes that import everything anew.
    "tests/repository/test_distributions.py",
    "tests/unit/server/test_metrics.py::test_a_request_is_counted_also_where_the_library_was_imported_before",
    "tests/unit/store/test_computed_ids.py::test_i3_a_computed_id_a_hash_or_a_token_that_changes_is_noticed",
    "tests/functional/unity/conformance/test_page.py",
    "tests/repository/test_import_circles.py",
    "tests/repository/test_tests.py::test_every_test_asserts_something",
    "tests/unit/auth/test_bearer_tokens.py::test_what_signed_tokens_need_is_loaded_when_the_first_one_comes",
    # The largest of everything.
    "tests/functional/cli/test_help.py::test_help_shows_every_text_of_the_source_whole",
    "tests/functional/deploy/test_catalog_limits.py",
    "tests/functional/deploy/test_template.py",
    "tests/functional/unity/conformance/test_pages.py",
    "tests/functional/unity/test_metadata_fits.py",
    "tests/functional/v1/test_answers_fit.py",
    "tests/unit/catalog/test_costs.py",
    "tests/unit/catalog/test_size.py",
    "tests/unit/delta/test_large_commits.py",
    "tests/unit/transactions/test_large_groups.py::test_i8_a_thousand_tables_are_ratified_in_few_requests",
    "tests/unit/query/test_find.py::test_what_names_and_kinds_rule_out_is_never_read",
)
SERVICES: Final = {"ministack", "dynoxide", "s3", "server_on_s3"}
"""Parameters and fixtures of tests that need such a service."""


def is_long(item: pytest.Item) -> bool:
    """Whether ``make test-quick`` leaves the test out."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    named = {one for one in parameters if isinstance(one, str)} | {*getattr(item, "fixturenames", ())}
    return item.nodeid.startswith(LONG) or not named.isdisjoint(SERVICES)
