"""Reads Authorization headers: `Ticket ...` for one packet's grab, `Bearer ...` for all else."""

import time
from collections.abc import Callable

from app.auth.refusals import Forbidden, Unauthorized
from app.auth.tickets import Tickets
from app.auth.tokens import Caller, Tokens
from lua.ids import PacketId, UserId


class Authenticator:
    def __init__(
        self, tokens: Tokens, tickets: Tickets, now_s: Callable[[], float] = time.time
    ) -> None:
        self._tokens = tokens
        self._tickets = tickets
        self._now_s = now_s

    def grabber(self, authorization: str | None, packet_id: PacketId) -> UserId:
        """Who grabs `packet_id`, by ticket or bearer token. Raises Unauthorized."""
        if authorization is not None and authorization[:7].lower() == "ticket ":
            return self._tickets.check(authorization[7:], packet_id, self._now_s())
        return self.caller(authorization).user_id

    def caller(self, authorization: str | None) -> Caller:
        """Who holds the bearer token. Raises Unauthorized."""
        if authorization is None:
            raise Unauthorized("credentials_missing")
        scheme, _, text = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized("credentials_unsupported")
        return self._tokens.check(text)

    def admin(self, authorization: str | None) -> Caller:
        """As `caller`, for a token whose role is admin. Raises Unauthorized or Forbidden."""
        caller = self.caller(authorization)
        if not caller.is_admin:
            raise Forbidden("admin_only")
        return caller
