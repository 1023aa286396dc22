"""grab.lua: who gets what, and what is written down about it."""

import pytest

from lua.ids import PacketId, UserId
from lua.replies import Grab, Outcome
from lua.scripts import MAX_USERS_PER_GRAB
from tests.integration.lua.lab import PACKET, BoardRow, Lab, users

AMOUNTS = [30, 10, 50]
NOTHING_LEFT = Grab(Outcome.SOLD_OUT, 0, 0, 0)


async def test_shares_go_out_in_seq_order(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    first = await lab.try_grab("ann")
    rest = await lab.try_grab("bob", "cy")
    assert first.grabs == [Grab(Outcome.GRABBED, 1, 30, first.now_ms)]
    assert rest.grabs == [
        Grab(Outcome.GRABBED, 2, 10, rest.now_ms),
        Grab(Outcome.GRABBED, 3, 50, rest.now_ms),
    ]
    assert await lab.remaining() == []


async def test_claim_is_recorded_as_it_was_answered(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    reply = await lab.try_grab("ann", "bob")
    assert await lab.run("HGETALL", lab.of().claims) == {
        "ann": f"1:30:{reply.now_ms}",
        "bob": f"2:10:{reply.now_ms}",
    }
    assert await lab.remaining() == ["3:50"]


async def test_outbox_entry_is_exactly_the_claims_of_the_call(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    first = await lab.try_grab("ann", "ann", "bob")
    second = await lab.try_grab("bob", "cy", "dan")
    assert await lab.outbox() == [
        {
            "packet_id": str(PACKET),
            "claimed_at_ms": first.now_ms,
            "claims": [[1, 30, "ann"], [2, 10, "bob"]],
        },
        {
            "packet_id": str(PACKET),
            "claimed_at_ms": second.now_ms,
            "claims": [[3, 50, "cy"]],
        },
    ]


async def test_call_that_gives_nothing_writes_nothing(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.grab("ann", "bob", "cy")
    before = await lab.snapshot()
    assert await lab.grab("dan", "eve") == [NOTHING_LEFT, NOTHING_LEFT]
    assert [grab.outcome for grab in await lab.grab("ann", "dan")] == [
        Outcome.REPEATED,
        Outcome.SOLD_OUT,
    ]
    assert await lab.snapshot() == before


async def test_call_of_more_users_than_shares_serves_the_first_ones(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    grabs = await lab.grab(*users(5))
    assert [grab.seq for grab in grabs] == [1, 2, 3, 0, 0]
    assert grabs[3:] == [NOTHING_LEFT, NOTHING_LEFT]
    assert list(await lab.claims()) == users(3)


async def test_repeats_and_duplicates_take_no_share_from_the_others(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    [ann] = await lab.grab("ann")
    grabs = await lab.grab("ann", "bob", "bob", "ann", "cy", "dan")
    assert [grab.outcome for grab in grabs] == [
        Outcome.REPEATED,
        Outcome.GRABBED,
        Outcome.REPEATED,
        Outcome.REPEATED,
        Outcome.GRABBED,
        Outcome.SOLD_OUT,
    ]
    assert [grab.seq for grab in grabs] == [1, 2, 2, 1, 3, 0]
    assert grabs[0] == grabs[3] == ann._replace(outcome=Outcome.REPEATED)


async def test_board_ranks_by_amount_and_equal_amounts_by_claim_order(lab: Lab) -> None:
    await lab.open([20, 50, 20, 50, 20])
    await lab.grab("zoe", "yan", "xu")
    await lab.grab("wei", "vic")
    # Five shares: amount * 8 + 7 - seq.
    assert await lab.board() == [
        BoardRow("yan", 405),
        BoardRow("wei", 403),
        BoardRow("zoe", 166),
        BoardRow("xu", 164),
        BoardRow("vic", 162),
    ]


async def test_amounts_near_two_to_the_53_keep_every_digit(lab: Lab) -> None:
    highest = 2**51 - 1  # of three shares: scores are amount * 4 + 3 - seq
    await lab.open([highest, highest, highest])
    reply = await lab.try_grab("zoe", "yan", "xu")
    assert [grab.amount_fen for grab in reply.grabs] == [highest] * 3
    assert await lab.board() == [
        BoardRow("zoe", 2**53 - 2),
        BoardRow("yan", 2**53 - 3),
        BoardRow("xu", 2**53 - 4),
    ]
    assert (await lab.run("HGET", lab.of().claims, "xu")) == f"3:{highest}:{reply.now_ms}"
    [entry] = await lab.outbox()
    assert entry["claims"][2] == [3, highest, "xu"]
    assert await lab.grab("xu") == [Grab(Outcome.REPEATED, 3, highest, reply.now_ms)]


async def test_ids_that_look_like_numbers_are_kept_to_the_letter(lab: Lab) -> None:
    packet_id = PacketId(2**63 - 1)
    odd = ["7", "007", "7-0", "1e3", "9007199254740993", "9" * 64, "-_-"]
    await lab.open([1] * len(odd), packet_id)
    grabs = await lab.grab(*odd, packet_id=packet_id)
    assert [grab.seq for grab in grabs] == [1, 2, 3, 4, 5, 6, 7]
    assert list(await lab.run("HGETALL", lab.of(packet_id).claims)) == odd
    [entry] = await lab.outbox(packet_id)
    assert entry["packet_id"] == "9223372036854775807"
    assert [user for _, _, user in entry["claims"]] == odd


async def test_packets_of_one_partition_share_only_the_outbox(lab: Lab) -> None:
    other = PacketId(PACKET + lab.keys.partitions)
    await lab.open([10], PACKET)
    await lab.open([20], other)
    assert lab.of(PACKET).outbox == lab.of(other).outbox
    [one] = await lab.grab("ann", packet_id=PACKET)
    [two] = await lab.grab("ann", packet_id=other)
    assert (one.amount_fen, two.amount_fen) == (10, 20)
    assert [entry["packet_id"] for entry in await lab.outbox()] == [str(PACKET), str(other)]


async def test_largest_call_is_answered_for_every_user(lab: Lab) -> None:
    everybody = users(MAX_USERS_PER_GRAB)
    await lab.open([5] * MAX_USERS_PER_GRAB)
    grabs = await lab.grab(*everybody)
    assert [grab.seq for grab in grabs] == list(range(1, MAX_USERS_PER_GRAB + 1))
    assert {grab.outcome for grab in grabs} == {Outcome.GRABBED}
    [entry] = await lab.outbox()
    assert [user for _, _, user in entry["claims"]] == everybody
    assert [row.user for row in await lab.board()] == everybody


@pytest.mark.parametrize("count", [0, MAX_USERS_PER_GRAB + 1])
async def test_call_of_impossible_size_is_not_sent(lab: Lab, count: int) -> None:
    with pytest.raises(ValueError, match="a call is 1 to"):
        await lab.scripts.grab(PACKET, [UserId("ann")] * count)
