"""On a cluster no script may reach beyond the slot of its keys."""

import pytest
from redis.exceptions import ClusterCrossSlotError, ResponseError

from lua.ids import PacketId
from lua.script import CommandRunner, Script
from tests.integration.lua.lab import KEYS_OF, PACKET, TOKEN, VERBS, Lab

ARGUMENTS_OF: dict[str, list[int | str]] = {
    "load": [0, 4, 10],
    "open": [1, 10, 1, 2, 4],
    "grab": [4711, "ann"],
    "close": [],
    "suspend": ["r1"],
    "restore": ["r1", 0, 4, "1:10"],
    "resume": ["r1", 1, 10, 1, 2, 4, "open"],
    "resend": [4711, "ann"],
    "retire": [1000],
}
# A slot is that of all keys: with one key there is no other to differ from.
VERBS_OF_SEVERAL_KEYS = [verb for verb in VERBS if len(KEYS_OF[verb]) > 1]


async def test_packets_of_all_partitions_work_on_a_cluster(cluster_lab: Lab) -> None:
    for number in range(cluster_lab.keys.partitions):
        packet_id = PacketId(1000 + number)
        await cluster_lab.open([10], packet_id)
        [grab] = await cluster_lab.grab("ann", packet_id=packet_id)
        assert grab.amount_fen == 10


@pytest.mark.parametrize("verb", VERBS_OF_SEVERAL_KEYS)
async def test_script_on_keys_of_two_partitions_is_refused(cluster_lab: Lab, verb: str) -> None:
    foreign = cluster_lab.of(PacketId(PACKET + 1)).outbox
    keys = cluster_lab.of()._replace(**{KEYS_OF[verb][-1]: foreign})
    command = Script(verb).command(TOKEN, keys, ARGUMENTS_OF[verb])
    for client in (cluster_lab.client, cluster_lab.raw):
        runner: CommandRunner = client
        with pytest.raises(ClusterCrossSlotError):
            await runner.execute_command(*command)
    assert await cluster_lab.snapshot() == {}


@pytest.mark.parametrize("verb", VERBS)
async def test_script_that_reaches_for_an_undeclared_slot_is_stopped(
    cluster_lab: Lab, verb: str
) -> None:
    foreign = cluster_lab.of(PacketId(PACKET + 1)).outbox
    _, source = Script(verb).under(TOKEN)
    first_line, rest = source.split("\n", 1)
    reaching = f"{first_line}\nredis.call('SET', '{foreign}', 'x')\n{rest}"
    keys = [cluster_lab.of()._asdict()[name] for name in KEYS_OF[verb]]
    with pytest.raises(ResponseError, match="same slot"):
        await cluster_lab.client.execute_command(
            "EVAL", reaching, len(keys), *keys, *ARGUMENTS_OF[verb]
        )
    assert await cluster_lab.snapshot() == {}
