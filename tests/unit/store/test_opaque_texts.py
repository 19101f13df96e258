"""Opaque texts that clients send back: only texts of this service are accepted, character by
character."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.store.core.opaque import Damaged, seal, unseal


class Record(msgspec.Struct, frozen=True, array_like=True):
    name: str
    number: int


DECODER = msgspec.msgpack.Decoder(Record)
RECORDS = st.builds(Record, st.text(max_size=30), st.integers(-(2**60), 2**60))


@given(RECORDS)
def test_a_text_leads_back_to_its_record(record: Record) -> None:
    assert unseal(seal(record), DECODER, "text") == record


@given(RECORDS, st.data())
def test_a_text_that_differs_in_one_character_is_damaged_also_where_base64_ignores_it(
    record: Record, data: st.DataObject
) -> None:
    text = seal(record)
    position = data.draw(st.integers(0, len(text)))
    character = data.draw(st.sampled_from("AQgw!-_=+/ \n"))
    changed = {f"{text[:position]}{character}{text[position + width :]}" for width in (0, 1)} - {text}
    for other in changed:
        with pytest.raises(Damaged):
            unseal(other, DECODER, "text")


@pytest.mark.parametrize("text", ["", "x", "é", "!!!!", "AAAAAAAAAAAA", "A" * 8193])
def test_what_no_service_of_this_kind_wrote_is_named_so(text: str) -> None:
    with pytest.raises(Damaged, match=r"^is no page token of this service$"):
        unseal(text, DECODER, "page token")


def test_a_text_of_another_service_is_damaged() -> None:
    other = base64.urlsafe_b64encode(b"123456" + msgspec.msgpack.encode(("a", 1))).rstrip(b"=").decode()
    with pytest.raises(Damaged, match="was changed"):
        unseal(other, DECODER, "text")


def test_a_text_as_long_as_a_query_is_read_and_a_longer_one_is_not() -> None:
    longest = Record("a" * 6133, 1)
    longer = Record("a" * 6134, 1)
    assert len(seal(longest)) == 8192
    assert unseal(seal(longest), DECODER, "text") == longest
    with pytest.raises(Damaged, match="is no text"):
        unseal(seal(longer), DECODER, "text")
