"""keys.py: what belongs together lies in one slot, and nothing collides."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from lua.ids import MAX_PACKET_ID, PacketId, Partition
from lua.keys import DEFAULT_PARTITIONS, MAX_PARTITIONS, KeySpace

packet_ids = st.integers(0, MAX_PACKET_ID).map(PacketId)
partition_counts = st.integers(1, MAX_PARTITIONS)
HASH_TAG = re.compile(r"\{(.*?)\}")


@given(packet_ids, partition_counts)
def test_all_keys_of_a_packet_share_one_hash_tag_and_one_slot(
    packet_id: PacketId, partitions: int
) -> None:
    keys = KeySpace(partitions).packet(packet_id)
    tags = [HASH_TAG.findall(key) for key in keys]
    assert tags == [[f"p{packet_id % partitions:02d}"]] * 7
    assert len({key_slot(key.encode()) for key in keys}) == 1


@given(packet_ids, packet_ids, partition_counts)
def test_two_packets_have_no_key_in_common_but_those_of_their_partition(
    one: PacketId, other: PacketId, partitions: int
) -> None:
    space = KeySpace(partitions)
    common = set(space.packet(one)) & set(space.packet(other))
    if one == other:
        assert len(common) == 7
    elif space.partition_of(one) == space.partition_of(other):
        partition = space.partition_of(one)
        stem = space.outbox(partition).removesuffix("outbox")
        assert common == {f"{stem}{name}" for name in ("outbox", "certificate", "touch")}
    else:
        assert common == set()


@given(packet_ids)
def test_keys_of_a_packet_are_distinct_and_begin_with_the_prefix(packet_id: PacketId) -> None:
    keys = KeySpace(prefix="other").packet(packet_id)
    assert len(set(keys)) == 7
    assert all(key.startswith("other:{p") for key in keys)


def test_key_names_stay_as_running_deployments_have_them() -> None:
    assert KeySpace().packet(PacketId(130)) == (
        "rp:{p02}:certificate",
        "rp:{p02}:packet:130:meta",
        "rp:{p02}:packet:130:shares",
        "rp:{p02}:packet:130:claims",
        "rp:{p02}:packet:130:board",
        "rp:{p02}:outbox",
        "rp:{p02}:touch",
    )


@pytest.mark.parametrize("partitions", [1, 4, DEFAULT_PARTITIONS, MAX_PARTITIONS])
def test_every_partition_has_an_outbox_of_its_own(partitions: int) -> None:
    outboxes = KeySpace(partitions).outboxes()
    assert len(outboxes) == len(set(outboxes)) == partitions


def test_every_packet_writes_to_one_of_the_outboxes() -> None:
    space = KeySpace(partitions=5)
    used = [space.packet(PacketId(number)).outbox for number in range(5)]
    assert used == space.outboxes()
    assert space.outbox(Partition(3)) == used[3]


@pytest.mark.parametrize("partitions", [-1, 0, MAX_PARTITIONS + 1])
def test_impossible_number_of_partitions_is_refused(partitions: int) -> None:
    with pytest.raises(ValueError, match="partitions must be 1 to 4096"):
        KeySpace(partitions)
