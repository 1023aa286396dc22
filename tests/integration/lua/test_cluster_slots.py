"""On a cluster no script may reach beyond the slot of its keys."""

import pytest
from redis.exceptions import ClusterCrossSlotError, ResponseError

from lua.ids import PacketId
from lua.scripts import Script
from tests.integration.lua.lab import KEYS_OF, PACKET, VERBS, Lab

ARGUMENTS_OF: dict[str, list[int | str]] = {
    "load": [0, 4, 10],
    "open": [1, 10, 1, 2, 4],
    "grab": [4711, "ann"],
    "close": [],
}


async def test_packets_of_all_partitions_work_on_a_cluster(cluster_lab: Lab) -> None:
    for number in range(cluster_lab.keys.partitions):
        packet_id = PacketId(1000 + number)
        await cluster_lab.open([10], packet_id)
        [grab] = await cluster_lab.grab("ann", packet_id=packet_id)
        assert grab.amount_fen == 10


@pytest.mark.parametrize("verb", VERBS)
async def test_script_on_keys_of_two_partitions_is_refused(cluster_lab: Lab, verb: str) -> None:
    keys = [
        *cluster_lab.of()[: len(KEYS_OF[verb]) - 1],
        cluster_lab.of(PacketId(PACKET + 1)).outbox,
    ]
    for client in (cluster_lab.client, cluster_lab.raw):
        with pytest.raises(ClusterCrossSlotError):
            await Script(verb).run(client, keys, ARGUMENTS_OF[verb])
    assert await cluster_lab.snapshot() == {}


@pytest.mark.parametrize("verb", VERBS)
async def test_script_that_reaches_for_an_undeclared_slot_is_stopped(
    cluster_lab: Lab, verb: str
) -> None:
    foreign = cluster_lab.of(PacketId(PACKET + 1)).outbox
    first_line, rest = Script(verb).source.split("\n", 1)
    reaching = f"{first_line}\nredis.call('SET', '{foreign}', 'x')\n{rest}"
    keys = cluster_lab.of()[: len(KEYS_OF[verb])]
    with pytest.raises(ResponseError, match="same slot"):
        await cluster_lab.client.execute_command(
            "EVAL", reaching, len(keys), *keys, *ARGUMENTS_OF[verb]
        )
    assert await cluster_lab.snapshot() == {}
