"""Signs bearer tokens, for deployments whose own HS256 secret makes them."""

import time
from typing import Any

import jwt

from app.auth.tokens import TokenSettings
from lua.ids import parse_user_id


def sign_token(settings: TokenSettings, user_id: str, is_admin: bool, seconds: int) -> str:
    """A token that `Tokens` with the same settings accepts. ValueError unless HS256."""
    if settings.algorithm != "HS256":
        raise ValueError("only an HS256 deployment can sign tokens here")
    payload: dict[str, Any] = {
        "sub": parse_user_id(user_id),
        "exp": int(time.time()) + seconds,
    }
    if is_admin:
        payload["role"] = "admin"
    if settings.issuer is not None:
        payload["iss"] = settings.issuer
    if settings.audience is not None:
        payload["aud"] = settings.audience
    return jwt.encode(payload, settings.key, algorithm="HS256")
