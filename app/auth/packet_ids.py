"""Public packet ids: 13 characters of id and 7 of signature, so that a forged id dies in memory."""

import hmac
import secrets
import time
from collections.abc import Callable
from typing import Final

from app.auth.hmac_key import HmacKey
from lua.ids import MAX_PACKET_ID, PacketId, placed

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: no i, l, o, u
_VALUES: Final = {character: value for value, character in enumerate(_ALPHABET)}
_ID_LENGTH: Final = 13
_SIGNATURE_LENGTH: Final = 7
_EPOCH_MS: Final = 1_767_225_600_000  # 2026-01-01T00:00:00Z
_RANDOM_BITS: Final = 21
_REMEMBERED: Final = 100_000


class ForgedPacketId(ValueError):
    """This is not the id of a packet."""

    def __init__(self) -> None:
        super().__init__("this is not the id of a packet")


def _encode(number: int, length: int) -> str:
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in reversed(range(length)))


class PacketIds:
    """Makes, signs and reads packet ids."""

    def __init__(self, secret: bytes, now_ms: Callable[[], int] | None = None) -> None:
        self._key = HmacKey(secret, "packet-id")
        self._now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)
        self._remembered: dict[str, PacketId] = {}

    def new(self, *, on_mysql: bool = False) -> PacketId:
        """A fresh id: 42 bits of milliseconds, one of placement, 20 random ones.

        A collision violates the key.
        """
        elapsed_ms = self._now_ms() - _EPOCH_MS
        packet_id = PacketId(elapsed_ms << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS))
        return placed(packet_id, on_mysql=on_mysql)

    def write(self, packet_id: PacketId) -> str:
        return _encode(packet_id, _ID_LENGTH) + self._signature(packet_id)

    def read(self, public_id: str) -> PacketId:
        """Return the packet id behind `public_id`. Raises ForgedPacketId."""
        remembered = self._remembered.get(public_id)
        if remembered is not None:
            return remembered
        packet_id = self._verify(public_id)
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.clear()
        self._remembered[public_id] = packet_id
        return packet_id

    def _verify(self, public_id: str) -> PacketId:
        if len(public_id) != _ID_LENGTH + _SIGNATURE_LENGTH:
            raise ForgedPacketId
        number = 0
        for character in public_id[:_ID_LENGTH]:
            value = _VALUES.get(character)
            if value is None:
                raise ForgedPacketId
            number = number << 5 | value
        packet_id = PacketId(number)
        signature = public_id[_ID_LENGTH:].encode(errors="replace")
        if number > MAX_PACKET_ID or not hmac.compare_digest(
            signature, self._signature(packet_id).encode()
        ):
            raise ForgedPacketId
        return packet_id

    def _signature(self, packet_id: PacketId) -> str:
        tag = self._key.tag(b"%d" % packet_id)
        return _encode(int.from_bytes(tag[:5]), _SIGNATURE_LENGTH)
