"""Identifiers that every layer above the splitter shares."""

import re
from typing import NewType

PacketId = NewType("PacketId", int)
UserId = NewType("UserId", str)
Partition = NewType("Partition", int)

MAX_PACKET_ID = 2**63 - 1

_ON_MYSQL = 1 << 20  # the highest of the random bits

_USER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def parse_user_id(text: str) -> UserId:
    """Return `text` as a user id: 1 to 64 of A-Z a-z 0-9 _ -. ValueError otherwise.

    grab.lua writes user ids into JSON and claim values unescaped, and refuses other characters too.
    """
    if not _USER_ID.fullmatch(text):
        raise ValueError("a user id is 1 to 64 characters of A-Z a-z 0-9 _ -")
    return UserId(text)


def is_on_mysql(packet_id: PacketId) -> bool:
    """Whether a packet is grabbed in MySQL alone, as one that was created without Redis is."""
    return bool(packet_id & _ON_MYSQL)


def placed(packet_id: PacketId, *, on_mysql: bool) -> PacketId:
    """The id that says where its packet is grabbed: every process knows it without looking."""
    return PacketId(packet_id | _ON_MYSQL if on_mysql else packet_id & ~_ON_MYSQL)
