"""A replica is promoted: what it has not, the level decides; what is given away, MySQL decides."""

from dataclasses import replace

import pytest
from redis import Redis

from app.config import Durability, Settings
from app.grabbing.coalescer import GrabUnavailable
from app.services import open_services
from tests.deployment import make_ready, running_workers
from tests.durability.pair import Pair, asked_until_answered, recovered, service, until_booked
from tests.integration.money.lab import MoneyLab, told, users

SHARES = 60


async def test_at_level_replica_nobody_is_told_what_no_replica_has(
    settings: Settings, pair: Pair
) -> None:
    async with service(settings, pair, "replica") as lab:
        packet_id = await lab.packet(SHARES)
        ann = await asked_until_answered(lab, packet_id, "ann")
        pair.replica.pause()
        try:
            for user in ("bob", "bob", "ann"):  # a repeat is no more certain than the first time
                with pytest.raises(GrabUnavailable):
                    await lab.grab(packet_id, user)
        finally:
            pair.replica.resume()

        assert (await asked_until_answered(lab, packet_id, "bob"))[0] == 2
        assert await asked_until_answered(lab, packet_id, "ann") == ann


async def test_at_level_replica_a_promoted_replica_has_every_answer(
    settings: Settings, pair: Pair
) -> None:
    async with service(settings, pair, "replica") as lab:
        packet_id = await lab.packet(SHARES)
        had: dict[str, tuple[int, int]] = {}
        for number, user in enumerate(users(30)):
            had[user] = await asked_until_answered(lab, packet_id, user)
            if number in (9, 19):  # over and back, in the middle of it
                await pair.fail_over()

        for user, claim in had.items():
            assert await asked_until_answered(lab, packet_id, user) == claim
        for user in users(SHARES - 30, first=100):
            had[user] = await asked_until_answered(lab, packet_id, user)
        await until_booked(lab, packet_id, SHARES)
        assert await lab.claims(packet_id) == had
        assert await lab.conflicts() == []
        await lab.balanced()


@pytest.mark.parametrize("level", ["fsync", "memory"])
async def test_where_no_replica_is_waited_for_one_that_lags_is_compared_and_rebuilt(
    settings: Settings, pair: Pair, level: Durability
) -> None:
    """It lacks answered grabs. They had reached MySQL: they stand, and no share goes twice."""
    async with service(settings, pair, level) as lab:
        packet_id = await lab.packet(SHARES)
        early = told(await lab.wins(packet_id, *users(10)))
        await pair.in_step()
        with Redis.from_url(pair.replica.url) as client:
            client.replicaof("NO", "ONE")  # it hears nothing more
        late = told(await lab.wins(packet_id, *users(10, first=11)))
        await until_booked(lab, packet_id, 20)

        await pair.fail_over()

        had = early | late
        for user, claim in had.items():
            assert await asked_until_answered(lab, packet_id, user) == claim
        for user in users(SHARES - 20, first=100):
            had[user] = await asked_until_answered(lab, packet_id, user)
        await until_booked(lab, packet_id, SHARES)
        assert await lab.claims(packet_id) == had
        assert await lab.conflicts() == []
        await lab.balanced()


async def test_an_answer_that_a_promotion_lost_and_a_fail_back_found_is_paid_by_the_house(
    settings: Settings, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """Ann's share was given to Bob meanwhile. His row stands, and she has what she was told."""
    own = replace(settings, redis_url=pair.url)
    async with open_services(own) as services:
        await make_ready(services)
        lab = MoneyLab(services)
        packet_id = await lab.packet(SHARES)
        await pair.in_step()
        with Redis.from_url(pair.replica.url) as client:
            client.replicaof("NO", "ONE")
        ann = (await lab.wins(packet_id, "ann"))["ann"]  # on the primary alone: no relay runs

        await pair.exchange_without_return()
        async with running_workers(services):
            await recovered(lab)
            bob = (await lab.wins(packet_id, "bob"))["bob"]
            await until_booked(lab, packet_id, 1)
            await pair.exchange_without_return()
            await recovered(lab)
            others = await lab.wins(packet_id, *users(SHARES - 1))
            await until_booked(lab, packet_id, SHARES)

        assert (ann.seq, ann.amount_fen) == (bob.seq, bob.amount_fen)
        assert await lab.claims(packet_id) == told({"bob": bob} | others)
        [conflict] = await lab.conflicts()
        assert (conflict["user_id"], conflict["seq"]) == ("ann", ann.seq)
        assert caplog.text.count("ALARM conflict") == 1
        assert await lab.balance("user:ann") == ann.amount_fen
        assert await lab.balance("user:bob") == bob.amount_fen
        assert await lab.balance("outside:house") == -ann.amount_fen
        assert await lab.balance(f"packet:{packet_id}") == 0
        await lab.balanced()
