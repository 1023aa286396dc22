"""Packet ids carry a signature, so a forged one is told from a true one in memory."""

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.auth.hmac_key import HmacKey
from app.auth.packet_ids import ForgedPacketId, PacketIds
from lua.ids import MAX_PACKET_ID, PacketId

SECRET = b"s" * 32
IDS = PacketIds(SECRET)


@given(st.integers(0, MAX_PACKET_ID))
def test_every_id_comes_back_as_written(number: int) -> None:
    assert PacketIds(SECRET).read(IDS.write(PacketId(number))) == number


@pytest.mark.parametrize("number", [0, 1, 2**32, MAX_PACKET_ID])
def test_every_single_changed_character_is_noticed(number: int) -> None:
    good = IDS.write(PacketId(number))
    for at, character in enumerate(good):
        for other in "0123456789abcdefghjkmnpqrstvwxyzilouA-é":
            if other != character:
                with pytest.raises(ForgedPacketId):
                    IDS.read(good[:at] + other + good[at + 1 :])


@pytest.mark.parametrize("text", ["", "0", "0" * 19, "0" * 20, "0" * 21, "z" * 20, "\udcff" * 20])
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(ForgedPacketId):
        IDS.read(text)


def test_id_of_another_deployment_is_refused() -> None:
    with pytest.raises(ForgedPacketId):
        IDS.read(PacketIds(b"t" * 32).write(PacketId(1)))


def test_new_ids_grow_with_time_and_fit_into_63_bits() -> None:
    clock = [1_800_000_000_000]
    ids = PacketIds(SECRET, lambda: clock[0])
    earlier = ids.new()
    clock[0] += 1

    assert earlier < ids.new() <= MAX_PACKET_ID


@given(st.binary(max_size=300), st.binary(min_size=32, max_size=200))
def test_tag_is_hmac_sha256_of_the_derived_key(message: bytes, secret: bytes) -> None:
    derived = hmac.digest(secret, b"purpose", "sha256")

    assert HmacKey(secret, "purpose").tag(message) == hmac.digest(derived, message, "sha256")


def test_purposes_do_not_share_tags_and_short_secrets_are_refused() -> None:
    assert HmacKey(SECRET, "a").tag(b"x") != HmacKey(SECRET, "b").tag(b"x")
    with pytest.raises(ValueError, match="32 bytes"):
        HmacKey(b"short", "a")
