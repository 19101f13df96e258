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
    "tests/e2e/test_server_requests.py",
    "tests/e2e/test_server_store.py",
    "tests/e2e/test_definitions.py",
    "tests/functional/fleet/",
    "tests/unit/server/test_workers.py::test_a_worker_needs_a_store_that_is_there",
    "tests/unit/fleet/test_fleet_costs.py",
    "tests/functional/benchmarks/test_streaming.py::test_writers_on_one_table_commit_every_batch_once",
    "tests/functional/deploy/",
    "tests/repository/test_docs_snippets.py::test_what_is_marked_runs_against_a_server",
    # SQLite: processes that are killed, lost power, full disks.
    "tests/contract/adapters/test_sqlite_faults.py",
    "tests/contract/adapters/test_sqlite_power.py",
    "tests/contract/adapters/test_sqlite_processes.py",
    # Timed-out and broken answers of HTTP.
    "tests/contract/adapters/test_sessions.py",
    "tests/contract/adapters/test_storage_s3.py",
    "tests/contract/adapters/test_store_unavailable.py",
    "tests/contract/adapters/test_torn_answers.py",
    "tests/contract/adapters/test_transport.py",
    "tests/unit/http_client/test_waiting.py",
    # Damages and stores of earlier code: samples of them run in make test.
    "tests/functional/damage/",
    "tests/functional/upgrades/",
    # The template: costs, aliases, starts of functions in processes of their own.
    "tests/functional/maintenance/test_maintain_function.py::test_no_function_imports_pyarrow_when_it_starts",
    (
        "tests/functional/maintenance/"
        "test_maintain_function.py::test_only_parts_that_read_or_write_data_files_import_pyarrow_by_a_statement"
    ),
    # The largest of gc's planted mistakes and crashes.
    "tests/unit/gc/test_iceberg_files.py::test_a_planted_mistake_is_found",
    # Processes that import everything anew.
    "tests/functional/starts/",
    "tests/repository/test_distributions.py",
    "tests/unit/server/test_metrics.py::test_a_request_is_counted_also_where_the_library_was_imported_before",
    "tests/unit/store/test_computed_ids.py::test_i3_a_computed_id_a_hash_or_a_token_that_changes_is_noticed",
    "tests/functional/unity/conformance/test_page.py",
    "tests/repository/test_import_circles.py",
    "tests/repository/test_tests.py::test_every_test_asserts_something",
    "tests/unit/auth/test_bearer_tokens.py::test_what_signed_tokens_need_is_loaded_when_the_first_one_comes",
    "tests/repository/test_second_chance.py",
    # Form and words of the code: a part of make lint.
    "tests/repository/test_form.py",
    "tests/repository/test_real_time.py::test_no_test_compares_elapsed_real_time",
    "tests/repository/test_words.py",
    # A failure at every step.
    (
        "tests/functional/catalog/"
        "test_changes_made_once.py::test_i3_a_cascade_of_several_changes_goes_on_where_it_was_and_is_done_once"
    ),
    "tests/functional/ingest/test_failures.py",
    "tests/functional/python_client/test_rewrites.py",
    "tests/functional/transfer/test_another_region.py",
    "tests/functional/transfer/test_interleavings.py",
    (
        "tests/unit/fleet/test_members.py::"
        "test_i19_a_member_with_much_to_claim_read_and_give_does_it_in_several_beats_and_shows_life_meanwhile"
    ),
    "tests/unit/gc/test_log.py",
    (
        "tests/unit/repair/"
        "test_repair_choice.py::test_i4_large_commits_of_both_sides_are_compared_and_copied_piece_by_piece"
    ),
    "tests/unit/fleet/test_members.py::test_i19_whatever_write_is_the_last_or_has_no_answer_the_fleet_comes_to_rest",
    "tests/unit/gc/test_parts.py::test_i10_whatever_dies_every_head_of_the_kept_history_is_whole",
    "tests/unit/repair/test_recover.py::test_i4_i6_i11_a_recovery_killed_at_any_point_is_finished_by_the_next_one",
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
    "tests/functional/unity/conformance/test_pages.py",
    "tests/functional/unity/test_metadata_fits.py",
    "tests/functional/v1/test_answers_fit.py",
    "tests/functional/cli/test_demo.py::test_the_five_tables_have_the_columns_of_sparks_schema",
    "tests/functional/python_client/test_tables.py::test_history_shows_also_commits_that_wait_to_be_published",
    "tests/functional/ingest/test_batches.py::test_bodies_are_in_memory_in_parts",
    "tests/functional/ingest/test_server.py::test_bodies_that_are_no_text_are_read_and_published",
    "tests/functional/v1/test_transactions.py::test_i8_a_refusal_by_a_thousand_tables_names_a_hundred_of_them",
    (
        "tests/functional/v1/test_transactions.py::"
        "test_i8_a_table_that_waits_for_a_decision_refuses_commits_and_drops_for_now_and_is_read_as_it_was"
    ),
    "tests/unit/ingest/test_bodies.py::test_few_bytes_that_stand_for_many_are_refused_before_they_take_memory",
    "tests/functional/v1/test_document.py::test_the_document_is_valid_openapi_3_1",
    (
        "tests/functional/v1/"
        "test_transactions.py::test_i3_i8_a_thousand_tables_are_ratified_entirely_and_the_same_again_is_a_replay"
    ),
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
