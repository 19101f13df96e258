"""Every rule of commits and claimed backfills has a test of its own: the rules by situation, as the
reference has them."""

from __future__ import annotations

import importlib

import pytest

RULES = {
    "a commit or a claimed backfill of an external table": "actions.test_commits_of_an_external_table_are_refused",
    "a number that is not positive, or missing": "commits.test_numbers_of_a_commit_are_positive",
    "a file name that is none": "commits.test_a_file_name_is_a_plain_base_name",
    "a file name of any other form": "commits.test_i4_the_form_of_a_file_name_is_free_and_it_is_published",
    "a claimed backfill before any commit": "commits.test_a_claimed_backfill_needs_a_commit_before_it",
    "the first commit": "commits.test_i1_the_first_commit_is_version_1_whatever_backfill_it_claims",
    "the next version": "commits.test_a_commit_as_spark_sends_it_is_accepted_and_listed",
    "a version further on": "commits.test_i1_a_gap_is_400",
    "a taken version, the same file": "replays.test_i3_a_replay_is_a_no_op_of_the_whole_request",
    "a taken version, the same file, with metadata": "replays.test_i3_a_replay_of_a_metadata_change_is_a_no_op_too",
    "a taken version, another file": "commits.test_i2_another_commit_of_an_accepted_version_is_409",
    "a taken version, a file that is gone": "commits.test_i2_a_taken_version_is_409_though_the_losers_file_is_gone",
    "a version long published": "replays.test_i3_a_replay_long_after_publication_is_known_by_the_index",
    "a version whose name is forgotten": "replays.test_i3_contents_are_compared_where_names_are_forgotten",
    "a claimed backfill above the latest": "commits.test_a_claimed_backfill_is_a_version_and_not_above_the_latest",
    "a claimed backfill with a commit": (
        "commits.test_with_a_commit_the_version_before_is_the_bound_of_a_claimed_backfill"
    ),
    "a claimed backfill with a commit that lost": (
        "commits.test_i3_a_loser_that_knows_more_to_be_published_gets_the_conflict"
    ),
    "a claimed backfill of what is published": (
        "commits.test_i5_a_claimed_backfill_writes_nothing_before_and_after_publication"
    ),
    "a claimed backfill of what is not published": "commits.test_i5_a_claimed_backfill_is_only_a_hint",
    "many unpublished commits": "commits.test_i1_i6_commits_come_newest_first_contiguous_and_complete",
    "more than the table can carry": "commits.test_a_full_backlog_is_429_with_a_time_to_wait",
    "UniForm without a commit": "preview.test_uniform_rides_with_a_commit_and_its_time_is_text",
    "UniForm and the table's properties": "beside.test_uniform_rides_with_every_commit_exactly_when_the_table_has_it",
    "a timestamp that does not increase": "commits.test_i7_a_timestamp_that_does_not_increase_is_400",
    "another place than the table's": "preview.test_refusals_of_the_older_endpoint",
    "no commit yet": "create.test_a_created_table_is_answered_as_load_answers_it",
    "everything published": "commits.test_i1_i6_commits_come_newest_first_contiguous_and_complete",
    "an outcome that nobody knows": "commits.test_a_lost_answer_is_unknown_and_a_repetition_finds_out",
    "an answer that cannot be made": (
        "replays.test_i3_what_fails_after_a_commit_was_accepted_is_unknown_and_not_throttled"
    ),
}


@pytest.mark.parametrize("situation", RULES)
def test_a_rule_of_commits_has_a_test_that_says_its_answer(situation: str) -> None:
    module, name = RULES[situation].split(".")
    test = getattr(importlib.import_module(f"tests.functional.unity.conformance.test_{module}"), name)
    assert [mark for mark in test.pytestmark if mark.name == "covers"]
