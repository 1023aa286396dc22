"""A ticket is the right of one user to grab one packet until a time, and of nobody else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.auth.refusals import Unauthorized
from app.auth.tickets import Tickets
from lua.ids import PacketId, UserId

PACKET, OTHER_PACKET = PacketId(7_000_000_001), PacketId(7_000_000_002)
ANN = UserId("ann")
EXPIRES_S = 2_000_000_000
TICKETS = Tickets(b"s" * 32)
GOOD = TICKETS.issue(PACKET, ANN, EXPIRES_S).text


def refusal(text: str, packet_id: PacketId = PACKET, now_s: float = EXPIRES_S - 1) -> str:
    with pytest.raises(Unauthorized) as refused:
        TICKETS.check(text, packet_id, now_s)
    return refused.value.code


def test_ticket_tells_whose_it_is_until_it_expires() -> None:
    assert TICKETS.check(GOOD, PACKET, EXPIRES_S - 0.001) == ANN
    assert refusal(GOOD, now_s=EXPIRES_S) == "ticket_expired"


def test_ticket_of_another_packet_is_refused() -> None:
    assert refusal(GOOD, OTHER_PACKET) == "ticket_invalid"


def test_ticket_of_another_deployment_is_refused() -> None:
    assert refusal(Tickets(b"t" * 32).issue(PACKET, ANN, EXPIRES_S).text) == "ticket_invalid"


def test_every_single_changed_character_is_noticed() -> None:
    for at, character in enumerate(GOOD):
        for other in "0a.":
            if other != character:
                assert refusal(GOOD[:at] + other + GOOD[at + 1 :]) == "ticket_invalid"


def test_moving_the_dot_between_expiry_and_user_is_noticed() -> None:
    expiry, user, tag = GOOD.split(".")
    assert refusal(f"{expiry[:-1]}.{expiry[-1]}{user}.{tag}") == "ticket_invalid"


@pytest.mark.parametrize("text", ["", ".", "..", "a.b.c", "é.é.é", "\udcff", GOOD[:-1], GOOD + "0"])
def test_garbage_is_refused(text: str) -> None:
    assert refusal(text) == "ticket_invalid"


def test_no_ticket_is_issued_to_a_user_id_that_could_be_misread() -> None:
    with pytest.raises(ValueError, match="user id"):
        TICKETS.issue(PACKET, UserId("ann.bob"), EXPIRES_S)


@given(
    st.text()
    | st.text(".0123456789abcdef")
    | st.text(st.characters(min_codepoint=0xD7F0, max_codepoint=0xE010, categories=["Cs", "Co"]))
)
def test_no_text_raises_anything_else(text: str) -> None:
    assert refusal(text) == "ticket_invalid"


@pytest.mark.parametrize("other", ["bob", "an", "ann2", "Ann", "", "ann.ann"])
def test_ticket_in_the_name_of_another_user_is_refused(other: str) -> None:
    expiry, _, tag = GOOD.split(".")
    assert refusal(f"{expiry}.{other}.{tag}") == "ticket_invalid"


@pytest.mark.parametrize(
    "expiry", ["2000000001", "02000000000", " 2000000000", "9" * 5000, "", "-1"]
)
def test_ticket_that_says_it_lasts_longer_is_refused(expiry: str) -> None:
    _, user, tag = GOOD.split(".")
    assert refusal(f"{expiry}.{user}.{tag}") == "ticket_invalid"


def test_tag_in_upper_case_or_longer_than_a_tag_is_refused() -> None:
    body, _, tag = GOOD.rpartition(".")
    assert refusal(f"{body}.{tag.upper()}") == "ticket_invalid"
    assert refusal(f"{body}.{tag}{tag}") == "ticket_invalid"


@given(st.integers(0, 2**63 - 1), st.from_regex("[A-Za-z0-9_-]{1,64}", fullmatch=True))
def test_every_ticket_that_is_issued_is_accepted(packet: int, user: str) -> None:
    ticket = TICKETS.issue(PacketId(packet), UserId(user), EXPIRES_S)

    assert ticket.expires_at_ms == EXPIRES_S * 1000
    assert TICKETS.check(ticket.text, PacketId(packet), EXPIRES_S - 1) == user
