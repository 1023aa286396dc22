"""Bearer tokens: JWTs of one fixed algorithm, remembered once verified until they expire."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import jwt
from jwt.algorithms import HMACAlgorithm

from app.auth.refusals import Unauthorized
from lua.ids import UserId, parse_user_id

Algorithm = Literal["HS256", "RS256", "ES256", "EdDSA"]
ALGORITHMS: Final[tuple[Algorithm, ...]] = ("HS256", "RS256", "ES256", "EdDSA")
_REMEMBERED: Final = 200_000
_MAX_TOKEN_LENGTH: Final = 4096


class Caller(NamedTuple):
    user_id: UserId
    is_admin: bool
    expires_at_s: float


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """`key` is the shared secret for HS256, else a PEM public key."""

    algorithm: Algorithm
    key: str
    issuer: str | None = None
    audience: str | None = None


class Tokens:
    """Verifies bearer tokens: `sub` is the user id, `exp` is required, `role` may be `admin`."""

    def __init__(self, settings: TokenSettings, now_s: Callable[[], float]) -> None:
        self._settings = settings
        self._now_s = now_s
        self._jwt = jwt.PyJWT()
        self._remembered: dict[str, Caller] = {}
        self._key = _verification_key(settings)

    def check(self, text: str) -> Caller:
        """Return who holds the token. Raises Unauthorized."""
        caller = self._remembered.get(text)
        if caller is None:
            caller = self._verify(text)
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[text] = caller
        elif caller.expires_at_s <= self._now_s():
            del self._remembered[text]
            raise Unauthorized("token_expired")
        return caller

    def _verify(self, text: str) -> Caller:
        settings = self._settings
        if len(text) > _MAX_TOKEN_LENGTH:
            raise Unauthorized("token_invalid")
        try:
            payload: dict[str, Any] = self._jwt.decode(
                text,
                self._key,
                algorithms=[settings.algorithm],
                issuer=settings.issuer,
                audience=settings.audience,
                options={"require": ["exp", "sub"]},
            )
            user_id = parse_user_id(payload["sub"])
            expires_at_s = float(payload["exp"])
        except jwt.ExpiredSignatureError:
            raise Unauthorized("token_expired") from None
        except (jwt.InvalidTokenError, ValueError, OverflowError):  # of an exp of 400 digits
            raise Unauthorized("token_invalid") from None
        return Caller(user_id, payload.get("role") == "admin", expires_at_s)


class _CheckedSecret(HMACAlgorithm):
    """HMAC whose secret is checked once: PyJWT would search it for PEM, DER and JWK at each call.

    Measured, that search is a third of verifying a token.
    """

    def __init__(self, secret: str) -> None:
        super().__init__(HMACAlgorithm.SHA256)
        self._secret = super().prepare_key(secret)

    def prepare_key(self, _: str | bytes) -> bytes:
        return self._secret


def _verification_key(settings: TokenSettings) -> jwt.PyJWK:
    """The key, bound to its algorithm, so that no token can choose another."""
    algorithm = jwt.get_algorithm_by_name(settings.algorithm)
    jwk = algorithm.to_jwk(algorithm.prepare_key(settings.key), as_dict=True)
    key = jwt.PyJWK(jwk, algorithm=settings.algorithm)
    if settings.algorithm == "HS256":
        key.Algorithm = _CheckedSecret(settings.key)
    return key
