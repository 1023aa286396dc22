"""Who asks, read from one header; a ticket opens one packet's grab and nothing else."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.auth.authenticator import Authenticator
from app.auth.refusals import Forbidden, Unauthorized
from app.auth.signing import sign_token
from app.auth.tickets import Tickets
from app.auth.tokens import Tokens, TokenSettings
from lua.ids import PacketId, UserId

PACKET, OTHER_PACKET = PacketId(1), PacketId(2)
NOW_S = time.time()
SETTINGS = TokenSettings("HS256", "s" * 32)
TICKETS = Tickets(b"s" * 32)
AUTHENTICATOR = Authenticator(Tokens(SETTINGS, lambda: NOW_S), TICKETS, lambda: NOW_S)
TOKEN = sign_token(SETTINGS, "ann", is_admin=False, seconds=3600)
ADMIN = sign_token(SETTINGS, "root", is_admin=True, seconds=3600)
TICKET = TICKETS.issue(PACKET, UserId("zoe"), int(NOW_S) + 60).text


def grabber(authorization: str | None) -> str:
    return AUTHENTICATOR.grabber(authorization, PACKET)


def caller(authorization: str | None) -> str:
    return AUTHENTICATOR.caller(authorization).user_id


def admin(authorization: str | None) -> str:
    return AUTHENTICATOR.admin(authorization).user_id


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_bearer_tokens_are_taken_everywhere_in_any_case(scheme: str) -> None:
    assert grabber(f"{scheme} {TOKEN}") == "ann"
    assert caller(f"{scheme} {TOKEN}") == "ann"
    assert admin(f"{scheme} {ADMIN}") == "root"


@pytest.mark.parametrize("scheme", ["Ticket", "ticket", "TICKET"])
def test_tickets_are_taken_for_their_packet_in_any_case(scheme: str) -> None:
    assert grabber(f"{scheme} {TICKET}") == "zoe"
    with pytest.raises(Unauthorized, match="ticket_invalid"):
        AUTHENTICATOR.grabber(f"{scheme} {TICKET}", OTHER_PACKET)


@pytest.mark.parametrize("who", [caller, admin])
def test_ticket_opens_nothing_but_a_grab(who: Callable[[str], str]) -> None:
    with pytest.raises(Unauthorized, match="credentials_unsupported"):
        who(f"Ticket {TICKET}")


def test_ticket_and_token_do_not_stand_for_each_other() -> None:
    with pytest.raises(Unauthorized, match="ticket_invalid"):
        grabber(f"Ticket {TOKEN}")
    with pytest.raises(Unauthorized, match="token_invalid"):
        grabber(f"Bearer {TICKET}")


def test_ticket_ends_by_the_clock() -> None:
    later = Authenticator(Tokens(SETTINGS, lambda: NOW_S), TICKETS, lambda: NOW_S + 61)

    with pytest.raises(Unauthorized, match="ticket_expired"):
        later.grabber(f"Ticket {TICKET}", PACKET)


@pytest.mark.parametrize("who", [grabber, caller, admin])
def test_missing_credentials_are_told_from_bad_ones(who: Callable[[str | None], str]) -> None:
    with pytest.raises(Unauthorized, match="credentials_missing"):
        who(None)
    for odd in ("", "Basic cm9vdDpyb290", "Bearer\t" + TOKEN, TOKEN, "Ticket"):
        with pytest.raises(Unauthorized, match="credentials_unsupported"):
            who(odd)
    for bad in ("Bearer", "Bearer ", f"Bearer  {TOKEN}", f"Bearer {TOKEN} ", "Bearer é"):
        with pytest.raises(Unauthorized, match="token_invalid"):
            who(bad)


def test_admin_routes_are_for_admins() -> None:
    with pytest.raises(Forbidden, match="admin_only"):
        admin(f"Bearer {TOKEN}")


@given(st.sampled_from(["", "Bearer ", "Ticket ", "bearer"]), st.text())
def test_no_header_raises_anything_else(scheme: str, text: str) -> None:
    for who in (grabber, caller, admin):
        with pytest.raises(Unauthorized):
            who(scheme + text)


def test_only_a_shared_secret_can_sign_tokens_here() -> None:
    with pytest.raises(ValueError, match="only an HS256 deployment"):
        sign_token(TokenSettings("RS256", "public"), "ann", is_admin=False, seconds=60)
    with pytest.raises(ValueError, match="user id"):
        sign_token(SETTINGS, "two words", is_admin=False, seconds=60)


def test_signed_tokens_carry_the_issuer_and_audience_of_the_deployment() -> None:
    settings = TokenSettings("HS256", "s" * 32, issuer="us", audience="redpacket")
    token = sign_token(settings, "ann", is_admin=False, seconds=3600)

    assert Tokens(settings, time.time).check(token).user_id == "ann"
