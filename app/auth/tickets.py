"""Tickets: the signed right of one user to grab one packet, checked without a look at any store."""

import hmac
from dataclasses import dataclass

from app.auth.hmac_key import HmacKey
from app.auth.refusals import Unauthorized
from lua.ids import PacketId, UserId, parse_user_id

_TAG_DIGITS = 32  # 128 bits in hexadecimal


@dataclass(frozen=True, slots=True)
class Ticket:
    text: str
    expires_at_ms: int


class Tickets:
    """Tickets read `<expires_at_s>.<user_id>.<tag>`; the tag covers packet, expiry and user."""

    def __init__(self, secret: bytes) -> None:
        self._key = HmacKey(secret, "ticket")

    def issue(self, packet_id: PacketId, user_id: UserId, expires_at_s: int) -> Ticket:
        user_id = parse_user_id(user_id)
        tag = self._tag(packet_id, f"{expires_at_s}.{user_id}")
        return Ticket(f"{expires_at_s}.{user_id}.{tag}", expires_at_s * 1000)

    def check(self, text: str, packet_id: PacketId, now_s: float) -> UserId:
        """Return whose ticket for `packet_id` this is. Raises Unauthorized."""
        body, _, tag = text.rpartition(".")
        if not hmac.compare_digest(
            tag.encode(errors="replace"), self._tag(packet_id, body).encode()
        ):
            raise Unauthorized("ticket_invalid")
        expires_at_s, _, user_id = body.partition(".")
        if int(expires_at_s) <= now_s:
            raise Unauthorized("ticket_expired")
        return UserId(user_id)

    def _tag(self, packet_id: PacketId, body: str) -> str:
        message = f"{packet_id}.{body}".encode(errors="replace")
        return self._key.tag(message).hex()[:_TAG_DIGITS]
