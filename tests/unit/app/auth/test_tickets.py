"""A ticket is the right of one user to grab one packet until a time, and of nobody else."""

import pytest

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
