"""Many outbox entries to one message, and how much of the outbox is read at once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.relay import MESSAGE_BYTES, RelayLimits, _entries, pack

bodies = st.lists(st.integers(1, MESSAGE_BYTES // 2).map(lambda size: b"x" * size), max_size=20)


@given(bodies)
def test_entries_are_packed_in_order_and_none_is_lost(entries: list[bytes]) -> None:
    messages = list(pack(entries))

    assert [line for message in messages for line in message.split(b"\n")] == entries
    for message in messages:
        payload = len(message) - message.count(b"\n")
        assert payload <= MESSAGE_BYTES


def test_an_entry_larger_than_a_message_goes_alone() -> None:
    large, small = b"l" * (MESSAGE_BYTES + 1), b"s"

    assert list(pack([small, large, small])) == [small, large, small]


@pytest.mark.parametrize(("streams", "each"), [(1, 64), (4, 64), (64, 16), (4096, 1)])
def test_one_read_is_bounded_over_all_streams(streams: int, each: int) -> None:
    assert RelayLimits().of_each(streams) == each


@pytest.mark.parametrize(
    "reply",
    [
        [[b"s", [(b"1-0", {b"claims": b"x"})]]],
        [[b"s", [[b"1-0", [b"claims", b"x"]]]]],
        {b"s": [(b"1-0", {b"claims": b"x"})]},
        {b"s": [[(b"1-0", {b"claims": b"x"})]]},
        {b"s": [[[b"1-0", [b"claims", b"x"]], [b"2-0", None]]]},
    ],
)
def test_a_reply_of_either_protocol_is_read_alike(reply: Any) -> None:
    assert list(_entries(reply)) == [("s", b"1-0", b"x")]


@pytest.mark.parametrize("reply", [None, [], {}, {b"s": []}, {b"s": [[]]}, [[b"s", []]]])
def test_an_empty_reply_has_no_entries(reply: Any) -> None:
    assert list(_entries(reply)) == []
