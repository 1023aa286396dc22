"""Tells this deployment's Redis from another's, which an address can come to lead to."""

import secrets
from collections.abc import Iterable
from hashlib import sha256
from typing import Final


class ForeignRedis(Exception):
    """This Redis is certified for another deployment: wrong address, or wrong key prefix."""


class Deployment:
    """Those who know the same secret; `name` does not tell it."""

    def __init__(self, secret: bytes) -> None:
        self.name: Final = sha256(b"deployment:" + secret).hexdigest()[:12]

    def new_token(self) -> str:
        """A token for a certificate."""
        return f"{self.name}.{secrets.token_hex(12)}"

    def refuse_foreign(self, tokens: Iterable[str | None]) -> None:
        """Raise ForeignRedis where one of a server's tokens is another deployment's."""
        for token in tokens:
            if token is not None and not token.startswith(f"{self.name}."):
                raise ForeignRedis(
                    "this Redis is certified for another deployment; is REDPACKET_REDIS_URL right?"
                )
