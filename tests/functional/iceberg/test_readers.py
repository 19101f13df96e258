"""Whatever writers send, and however late or early their clocks are: what a commit wrote, every
reader reads (I2, I9).

Java's own reader is asked in ``tests/iceberg/test_java_reads.py``.
"""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadataUtil

from tests.support.examples import examples
from tests.support.iceberg.readers import check
from tests.support.iceberg.writers import Writers

COUNTERS = ("last-updated-ms", "last-sequence-number", "last-column-id", "last-partition-id", "next-row-id")
"""What never goes back."""


@settings(max_examples=examples(25), phases=[Phase.explicit, Phase.generate])  # a seed has no smaller one
@given(st.integers(0, 2**32))
def test_i9_every_metadata_file_that_a_commit_wrote_can_be_read(seed: int) -> None:
    writers = Writers(Random(seed))
    for _ in range(12):
        assert writers.step().status in (200, 400, 409), writers.answers[-1].text
    files = writers.files()
    for said in files:
        check(said)
        raw = json.dumps(said)
        # PyIceberg 0.12 does not know these
        if '"variant"' not in raw and not ('_ns"' in raw and '-default"' in raw):
            TableMetadataUtil.parse_raw(raw)
    for before, after in pairwise(files):
        assert all(before.get(one, 0) <= after.get(one, 0) for one in COUNTERS)
