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
    "tests/simulation/test_bounded_sweeps.py::test_i11_a_mistake_planted_in_notes_is_found",
    "tests/simulation/test_on_sqlite.py",
    "tests/simulation/test_reused_staged_files.py",
    "tests/simulation/test_scenarios.py",
    "tests/simulation/test_simulation.py::test_a_failing_run_is_made_smaller_and_printed_with_its_seed_and_trace",
    "tests/simulation/test_simulation.py::test_i1_to_i11_a_planted_mistake_is_found",
    "tests/simulation/test_append_groups.py",
    "tests/simulation/test_awaited.py",
    "tests/simulation/test_change_groups.py",
    "tests/simulation/test_damaged_logs.py::test_i24_a_mistake_that_is_planted_is_found",
    "tests/simulation/test_fleet.py::test_i19_a_granule_has_one_owner_in_each_epoch_whatever_fails",
    "tests/simulation/test_groups.py::test_i3_i8_groups_are_ratified_as_a_whole_and_cuts_show_them_so",
    "tests/simulation/test_judged_reads.py",
    "tests/simulation/test_log_cleanup.py",
    "tests/simulation/test_bounded_sweeps.py::test_i11_what_a_publisher_leaves_is_published_by_its_note",
    "tests/simulation/test_reservations.py",
    # Damages and stores of earlier code: samples of them run in make test.
    "tests/functional/damage/test_damaged_iceberg.py",
    (
        "tests/functional/damage/"
        "test_damaged_logs.py::"
        "test_i24_a_plan_is_refused_where_a_commit_since_the_checkpoint_is_damaged_and_light_work_writes_none"
    ),
    "tests/functional/damage/test_damaged_logs.py::test_i24_a_sample_of_damages_is_reported_or_has_no_effect",
    (
        "tests/functional/damage/"
        "test_damaged_logs.py::test_i24_an_index_that_was_made_before_is_read_instead_of_a_damaged_commit"
    ),
    "tests/functional/upgrades/test_earlier_code.py",
    "tests/functional/upgrades/test_stored_stores.py::test_a_plan_names_the_files_of_all_commits",
    (
        "tests/functional/upgrades/"
        "test_stored_stores.py::test_i11_a_server_publishes_what_an_earlier_one_left_when_it_died"
    ),
    "tests/functional/upgrades/test_stored_stores.py::test_i11_what_was_ratified_and_not_published_is_published",
    # The template: costs, aliases, starts of functions in processes of their own.
    "tests/functional/deploy/test_artefacts.py::test_a_cold_start_imports_what_the_function_needs_and_nothing_else",
    "tests/functional/deploy/test_canary.py",
    "tests/functional/deploy/test_cost.py",
    "tests/functional/deploy/test_creation_order.py",
    "tests/functional/deploy/test_old_and_new_code.py",
    "tests/functional/deploy/test_private_api.py",
    "tests/functional/deploy/test_snapshots.py",
    "tests/functional/deploy/test_starts.py::test_a_start_imports_few_modules_and_looks_for_no_garbage_in_them",
    "tests/functional/maintenance/test_maintain_function.py::test_no_function_imports_pyarrow_when_it_starts",
    (
        "tests/functional/maintenance/"
        "test_maintain_function.py::test_only_branches_rows_maintenance_and_planning_import_pyarrow_by_a_statement"
    ),
    # The largest of gc's planted mistakes and crashes.
    "tests/unit/gc/test_iceberg_files.py::test_a_planted_mistake_is_found",
    "tests/unit/gc/test_log.py::test_i10_a_pinned_version_stays_and_goes_when_it_is_not_pinned_any_more",
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
    "tests/repository/test_second_chance.py",
    # The largest of everything.
    "tests/contract/store/test_groups.py",
    "tests/e2e/test_server_overload.py",
    "tests/functional/access/test_matrix.py",
    "tests/functional/auth/test_requests.py::test_the_authorizer_judges_a_token_once_and_the_functions_take_its_word",
    "tests/functional/auth/test_token_document.py::test_every_documented_answer_is_given_and_looks_as_described",
    (
        "tests/functional/benchmarks/"
        "test_hermitage.py::test_i8_groups_over_http_allow_what_their_level_allows_and_nothing_else"
    ),
    "tests/functional/cli/test_bulk_import.py",
    "tests/functional/cli/test_help.py::test_no_word_is_cut_in_a_terminal_of_80_columns",
    "tests/functional/v1/test_document_answers.py::test_every_documented_answer_is_given_and_looks_as_described",
    "tests/functional/cli/test_help.py::test_help_shows_every_text_of_the_source_whole",
    "tests/functional/deploy/test_catalog_limits.py",
    "tests/functional/deploy/test_template.py",
    "tests/functional/unity/conformance/test_pages.py",
    "tests/functional/unity/test_metadata_fits.py",
    "tests/functional/v1/test_answers_fit.py",
    "tests/unit/catalog/test_costs.py",
    "tests/unit/catalog/test_size.py",
    "tests/unit/delta/test_large_commits.py",
    "tests/unit/planning/test_index.py",
    "tests/unit/transactions/test_large_groups.py::test_i8_a_group_that_fits_one_write_has_no_row_of_its_own",
    "tests/unit/transactions/test_reserving.py::test_i8_i18_its_holders_group_is_ratified_and_leaves_the_reservation",
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
