"""Packet ids carry a signature, so a forged one is told from a true one in memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.auth import packet_ids
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


def test_new_ids_of_one_millisecond_differ_and_come_after_those_of_the_one_before() -> None:
    clock = [1_800_000_000_000]
    ids = PacketIds(SECRET, lambda: clock[0])
    earlier = {ids.new() for _ in range(50)}
    clock[0] += 1
    later = {ids.new() for _ in range(50)}

    assert len(earlier) > 45  # 21 random bits: next to none repeats
    assert max(earlier) < min(later)


def test_upper_case_is_refused_although_it_would_name_the_same_number() -> None:
    good = IDS.write(PacketId(MAX_PACKET_ID))

    assert good != good.upper()
    with pytest.raises(ForgedPacketId):
        IDS.read(good.upper())


def test_an_id_is_refused_each_time_also_after_its_true_one_was_read() -> None:
    good = IDS.write(PacketId(42))
    assert IDS.read(good) == 42

    for forged in (good + " ", good[:-1] + ("0" if good[-1] != "0" else "1")) * 2:
        with pytest.raises(ForgedPacketId):
            IDS.read(forged)


@given(st.text(min_size=20, max_size=20))
def test_no_text_of_the_right_length_raises_anything_else(text: str) -> None:
    with pytest.raises(ForgedPacketId):
        IDS.read(text)


def test_memory_of_read_ids_is_bounded_and_only_a_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packet_ids, "_REMEMBERED", 3)
    ids = PacketIds(SECRET)

    for number in [*range(10), *range(10)]:
        assert ids.read(IDS.write(PacketId(number))) == number
        assert len(ids._remembered) <= 3
