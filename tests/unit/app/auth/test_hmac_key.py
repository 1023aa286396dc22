"""Keys: HMAC-SHA256 as everybody computes it, and one key a purpose."""

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.auth.hmac_key import MIN_SECRET_BYTES, HmacKey

SECRET = b"s" * MIN_SECRET_BYTES


@given(st.binary(max_size=300), st.binary(min_size=32, max_size=200), st.text(max_size=20))
def test_tag_is_hmac_sha256_of_the_derived_key(message: bytes, secret: bytes, purpose: str) -> None:
    derived = hmac.digest(secret, purpose.encode(), "sha256")

    assert HmacKey(secret, purpose).tag(message) == hmac.digest(derived, message, "sha256")


@given(st.lists(st.binary(max_size=100), max_size=20))
def test_a_tag_does_not_depend_on_the_tags_made_before(messages: list[bytes]) -> None:
    used = HmacKey(SECRET, "purpose")

    assert [used.tag(message) for message in messages] == [
        HmacKey(SECRET, "purpose").tag(message) for message in messages
    ]


def test_purposes_do_not_share_tags() -> None:
    assert len({HmacKey(SECRET, name).tag(b"x") for name in ("", "a", "b", "ab")}) == 4


def test_secrets_do_not_share_tags() -> None:
    assert HmacKey(SECRET, "a").tag(b"x") != HmacKey(SECRET + b"t", "a").tag(b"x")


@pytest.mark.parametrize("length", [0, 1, MIN_SECRET_BYTES - 1])
def test_short_secret_is_refused_and_not_shown(length: int) -> None:
    with pytest.raises(ValueError, match=f"at least 32 bytes, got {length}$"):
        HmacKey(b"s" * length, "a")
