"""Outbox entries as JSON: what grab.lua writes is read, and nothing else is taken for it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ledger.claims import Claim, claim_body, parse_claims
from lua.ids import MAX_PACKET_ID, PacketId, UserId
from splitter.money import MAX_SHARES, MAX_TOTAL_FEN, Fen

LAST_MS = 253_402_300_799_999
claims = st.builds(
    Claim,
    packet_id=st.integers(1, MAX_PACKET_ID).map(PacketId),
    seq=st.integers(1, MAX_SHARES),
    user_id=st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True).map(UserId),
    amount_fen=st.integers(1, MAX_TOTAL_FEN).map(Fen),
    claimed_at_ms=st.integers(1, LAST_MS),
)


@given(claims)
def test_a_claim_is_read_back_from_its_body(claim: Claim) -> None:
    assert parse_claims(claim_body(claim)) == ([claim], [])


@given(st.binary(max_size=60))
def test_any_bytes_are_claims_or_rejected_and_never_an_exception(body: bytes) -> None:
    read, rejected = parse_claims(body)

    assert read == []
    assert len(rejected) <= 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {
            "packet_id": st.just("7") | json_values,
            "claimed_at_ms": st.just(5) | json_values,
            "claims": st.lists(json_values, max_size=4) | json_values,
        }
    )
)
def test_any_json_is_claims_or_rejected_row_by_row(entry: dict[str, Any]) -> None:
    read, rejected = parse_claims(json.dumps(entry).encode())

    if entry["packet_id"] == "7" and entry["claimed_at_ms"] == 5:
        rows = entry["claims"]
        assert len(read) + len(rejected) == (len(rows) if isinstance(rows, list) else 1)
    for each in rejected:
        assert each.reason.startswith("unreadable")


@pytest.mark.parametrize(
    "packet_id",
    [7, 7.0, True, None, "", "0", "-7", "+7", " 7", "7_0", "07", "７", str(2**63), "9" * 5000, [7]],
)
def test_a_packet_id_is_decimal_text_and_nothing_like_it(packet_id: Any) -> None:
    body = json.dumps({"packet_id": packet_id, "claimed_at_ms": 1, "claims": [[1, 1, "ann"]]})

    read, [rejected] = parse_claims(body.encode())

    assert read == []
    assert rejected.reason.startswith("unreadable entry")


@pytest.mark.parametrize(
    "row",
    [
        [0, 1, "ann"],
        [1, 0, "ann"],
        [1, -1, "ann"],
        [True, 1, "ann"],
        [1, 1.0, "ann"],
        [1, MAX_TOTAL_FEN + 1, "ann"],
        [MAX_SHARES + 1, 1, "ann"],
        [1, 1, 5],
        [1, 1, ""],
        [1, 1, "a'b"],
        [1, 1, "ann\n"],
        [1, 1],
        [1, 1, "ann", 1],
        {"seq": 1, "amount_fen": 1, "user": "ann"},
        None,
    ],
)
def test_a_bad_row_is_rejected_alone(row: Any) -> None:
    body = json.dumps(
        {"packet_id": "7", "claimed_at_ms": 1, "claims": [[1, 1, "ann"], row, [2, 2, "bob"]]}
    )

    read, [rejected] = parse_claims(body.encode())

    assert [claim.user_id for claim in read] == ["ann", "bob"]
    assert json.loads(rejected.body)["claims"] == [row]


@pytest.mark.parametrize("at_ms", [0, -1, LAST_MS + 1, 1.5, "1", None])
def test_a_time_that_no_datetime_holds_is_rejected(at_ms: Any) -> None:
    body = json.dumps({"packet_id": "7", "claimed_at_ms": at_ms, "claims": [[1, 1, "ann"]]})

    assert parse_claims(body.encode())[0] == []
