"""A Redis that may have lost data answers nobody until it holds what MySQL has booked."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.config import Settings
from app.grabbing.coalescer import GrabUnavailable
from app.recovery.certificates import LeaseLost
from app.recovery.deployment import ForeignRedis
from app.recovery.in_flight import ClaimsUnderWay, InFlightClaims
from app.recovery.recovery import RecoveryElsewhere
from app.redis_client import UnsafeRedis
from app.services import Services, open_services
from lua.ids import PacketId, UserId
from lua.replies import GrabStatus, Outcome
from tests.deployment import make_ready, running_workers
from tests.eventually import eventually
from tests.integration.money.lab import MoneyLab, told, users
from tests.servers.redis import RedisServer, start_redis
from workers.recoverer import Recoverer


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    with start_redis(tmp_path / "own-redis") as server:
        yield server


@pytest.fixture
async def lab(settings: Settings, own_redis: RedisServer) -> AsyncIterator[MoneyLab]:
    """On a Redis of its own, with relay and ledger at work: what recovery waits for."""
    own = replace(settings, redis_url=own_redis.url)
    async with open_services(own) as services:
        await make_ready(services)
        async with running_workers(services):
            yield MoneyLab(services)


async def booked(lab: MoneyLab, packet_id: PacketId, claims: int) -> None:
    async def probe() -> bool:
        return len(await lab.claims(packet_id)) == claims

    await eventually(probe, what=f"{claims} booked claims")


async def status(lab: MoneyLab, packet_id: PacketId, user: str = "eve") -> GrabStatus:
    reply = await lab.services.scripts.grab(packet_id, [UserId(user)])
    return reply.status


async def recovered(lab: MoneyLab) -> None:
    await lab.services.recovery.recover()
    await lab.services.redis_grabs.refresh_certificate()
    await answering(lab)


async def answering(lab: MoneyLab) -> None:
    async def probe() -> bool:
        return lab.services.admission.redis_answers

    await eventually(probe, what="grabs that are let in again")


async def whole(
    lab: MoneyLab, packet_id: PacketId, shares: int, had: dict[str, tuple[int, int]]
) -> None:
    """Everybody keeps the claim they had, and exactly the other shares are given out."""
    for user, claim in had.items():
        [grab] = await lab.grab(packet_id, user)
        assert (grab.outcome, grab[1:3]) == (Outcome.REPEATED, claim)
    rest = await lab.wins(packet_id, *users(shares - len(had), first=1000))
    [late] = await lab.grab(packet_id, "late")
    assert late.outcome == Outcome.SOLD_OUT
    seqs = [seq for seq, _ in had.values()] + [grab.seq for grab in rest.values()]
    assert sorted(seqs) == list(range(1, shares + 1))
    await booked(lab, packet_id, shares)
    assert await lab.conflicts() == []
    assert await lab.rows("SELECT id FROM dead_letter") == []
    await lab.balanced()


@pytest.mark.parametrize("loss", ["flushed", "restarted", "killed", "empty"])
async def test_after_any_loss_exactly_the_right_shares_remain(
    lab: MoneyLab, own_redis: RedisServer, loss: str
) -> None:
    packet_id = await lab.packet(100)
    had = told(await lab.wins(packet_id, *users(40)))
    await booked(lab, packet_id, 40)

    if loss == "flushed":
        await lab.redis("FLUSHALL")
    elif loss == "restarted":
        await asyncio.to_thread(own_redis.restart)
    else:
        own_redis.kill()
        if loss == "empty":
            for file in own_redis.directory.glob("appendonlydir/*"):
                file.unlink()
        await asyncio.to_thread(own_redis.start)

    assert await status(lab, packet_id) is GrabStatus.UNCERTIFIED
    with pytest.raises(GrabUnavailable):
        await lab.grab(packet_id, "eve")
    report = await lab.services.recovery.recover()
    assert (set(report.lost) == {packet_id}) is (loss in ("flushed", "empty"))
    await lab.services.redis_grabs.refresh_certificate()
    await answering(lab)
    await whole(lab, packet_id, 100, had)


async def test_an_older_copy_of_the_data_is_compared_and_rebuilt(
    lab: MoneyLab, own_redis: RedisServer
) -> None:
    packet_id, sold = await lab.packet(50), await lab.packet(3)
    early = told(await lab.wins(packet_id, *users(10)))
    await lab.wins(sold, "ann")
    older = own_redis.directory / "older"
    folder = own_redis.directory / "appendonlydir"
    older.mkdir()
    for file in folder.iterdir():
        (older / file.name).write_bytes(file.read_bytes())
    had = early | told(await lab.wins(packet_id, *users(10, first=11)))
    await lab.wins(sold, "bob", "cy")
    await booked(lab, packet_id, 20)
    await booked(lab, sold, 3)
    await lab.services.settling.settle(sold)
    new = await lab.packet(4)

    own_redis.kill()
    for file in folder.iterdir():
        file.unlink()
    for file in older.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    await asyncio.to_thread(own_redis.start)
    report = await lab.services.recovery.recover()
    await lab.services.redis_grabs.refresh_certificate()
    await answering(lab)

    assert set(report.lost) == {packet_id, new}
    assert report.stray == 1  # its books are closed, and the older data would give shares away
    [late] = await lab.grab(sold, "late")
    assert late.outcome == Outcome.CLOSED
    await whole(lab, packet_id, 50, had)


async def test_claims_that_had_not_reached_mysql_are_waited_for(
    lab: MoneyLab, own_redis: RedisServer
) -> None:
    packet_id = await lab.packet(30)
    await lab.wins(packet_id, *users(10))
    await lab.redis("SCRIPT", "FLUSH")  # anything that makes it uncertified
    await lab.redis("DEL", *lab.services.keys.certificates())
    had = {}
    async for user, grab in lab.services.live.claims(packet_id):
        had[str(user)] = (grab.seq, grab.amount_fen)
    assert len(had) == 10

    await recovered(lab)

    assert await lab.claims(packet_id) == had
    await whole(lab, packet_id, 30, had)


async def test_recovery_waits_no_longer_than_it_says_for_a_ledger_that_stands_still(
    services: Services,
) -> None:
    in_flight = InFlightClaims(services.redis, services.keys, services.database, wait_s=0.3)

    with pytest.raises(ClaimsUnderWay, match="are relay, RabbitMQ and ledger running"):
        await in_flight.arrived()


async def test_recovering_twice_gives_the_same_state(lab: MoneyLab) -> None:
    packet_id = await lab.packet(20)
    had = told(await lab.wins(packet_id, *users(5)))
    await booked(lab, packet_id, 5)
    await lab.redis("FLUSHALL")

    await recovered(lab)
    keys = lab.services.keys.packet(packet_id)
    names = (keys.meta, keys.shares, keys.claims, keys.board)
    first = [await lab.redis("DUMP", name) for name in names]
    again = await lab.services.recovery.recover()
    await lab.services.packet_recovery.rebuild(packet_id)

    assert [await lab.redis("DUMP", name) for name in names] == first
    assert (again.lost, again.certified) == ({}, False)
    await whole(lab, packet_id, 20, had)


async def test_recovering_under_load_takes_nothing_from_anybody(lab: MoneyLab) -> None:
    packet_id = await lab.packet(300)
    stop = asyncio.Event()

    async def rebuild_again_and_again() -> int:
        rebuilds = 0
        while not stop.is_set():
            await lab.services.packet_recovery.rebuild(packet_id)
            await lab.services.recovery.recover()
            rebuilds += 1
        return rebuilds

    rebuilding = asyncio.create_task(rebuild_again_and_again())
    had: dict[str, tuple[int, int]] = {}
    for user in users(300):
        while True:  # as a phone does: ask until there is an answer
            try:
                [grab] = await lab.grab(packet_id, user)
                break
            except GrabUnavailable:
                await asyncio.sleep(0.01)
        had[user] = (grab.seq, grab.amount_fen)
    stop.set()
    assert await rebuilding > 0

    await booked(lab, packet_id, 300)
    assert await lab.claims(packet_id) == had
    assert await lab.conflicts() == []
    await lab.balanced()


async def test_a_flushed_script_cache_costs_no_comparison(lab: MoneyLab) -> None:
    packet_id = await lab.packet(5)
    await lab.wins(packet_id, "ann")
    await lab.redis("SCRIPT", "FLUSH")
    assert await status(lab, packet_id) is GrabStatus.UNCERTIFIED
    assert await lab.services.recovery.is_needed()

    report = await lab.services.recovery.recover()

    assert (report.compared, report.certified) == (0, True)
    await lab.services.redis_grabs.refresh_certificate()
    await lab.wins(packet_id, "bob")


async def test_redis_of_another_deployment_is_left_alone(lab: MoneyLab) -> None:
    for key in lab.services.keys.certificates():
        await lab.redis("SET", key, "0123456789ab.their-token")

    with pytest.raises(ForeignRedis):
        await lab.services.recovery.recover()

    held = await lab.redis("GET", lab.services.keys.certificates()[0])
    assert held == b"0123456789ab.their-token"


async def test_one_recovers_at_a_time(lab: MoneyLab) -> None:
    packet_id = await lab.packet(5)
    await lab.wins(packet_id, "ann")
    await booked(lab, packet_id, 1)
    await lab.redis("FLUSHALL")
    await lab.run(
        "INSERT INTO lease (name, owner, until) VALUES"
        " ('recover', 'somebody', UTC_TIMESTAMP(3) + INTERVAL 60 SECOND)"
    )

    with pytest.raises(RecoveryElsewhere):
        await lab.services.recovery.recover()

    await lab.run("UPDATE lease SET until = UTC_TIMESTAMP(3) - INTERVAL 1 SECOND")
    assert (await lab.services.recovery.recover()).certified


async def test_who_lost_the_lease_certifies_nothing(lab: MoneyLab) -> None:
    await lab.redis("FLUSHALL")
    certificates = lab.services.recovery._certificates
    run = (await lab.services.redis.info("server"))["run_id"]
    before = await certificates.published()

    with pytest.raises(LeaseLost):
        await certificates.publish(run, lab.services.deployment.new_token(), "recover", "not-me")

    assert await certificates.published() == before


async def test_a_recoverer_mends_by_itself_what_operators_and_accidents_do(
    lab: MoneyLab, own_redis: RedisServer
) -> None:
    packet_id = await lab.packet(60)
    had: dict[str, tuple[int, int]] = {}
    stop = asyncio.Event()
    recoverer = asyncio.create_task(Recoverer(lab.services.recovery).run(stop))
    for number, accident in enumerate(["flush", "scripts", "restart", "flush"]):
        had |= told(await lab.wins(packet_id, *users(5, first=1 + 5 * number)))
        await booked(lab, packet_id, len(had))
        if accident == "flush":
            await lab.redis("FLUSHALL")
        elif accident == "scripts":
            await lab.redis("SCRIPT", "FLUSH")
        else:
            await asyncio.to_thread(own_redis.restart)

        async def grabbing() -> bool:
            try:
                [grab] = await lab.grab(packet_id, "u1")
            except GrabUnavailable:
                return False
            return grab.outcome == Outcome.REPEATED

        await eventually(grabbing, what=f"grabs after {accident}")
    stop.set()
    await recoverer
    await whole(lab, packet_id, 60, had)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("appendfsync", "everysec"),
        ("appendonly", "no"),
        ("maxmemory-policy", "allkeys-lru"),
        ("lazyfree-lazy-expire", "no"),
    ],
)
async def test_a_server_that_could_forget_is_not_certified(
    lab: MoneyLab, name: str, value: str
) -> None:
    packet_id = await lab.packet(3)
    before = await lab.services.redis.config_get(name)
    await lab.redis("DEL", *lab.services.keys.certificates())
    await lab.redis("CONFIG", "SET", name, value)

    with pytest.raises(UnsafeRedis, match=f"needs {name} {before[name]}"):
        await lab.services.recovery.recover()

    assert await status(lab, packet_id) is GrabStatus.UNCERTIFIED
    await lab.redis("CONFIG", "SET", name, before[name])
    await recovered(lab)
    await whole(lab, packet_id, 3, {})


@pytest.mark.parametrize("key", ["meta", "shares", "claims", "board"])
async def test_a_key_that_was_deleted_or_has_the_wrong_type_is_rebuilt(
    lab: MoneyLab, key: str
) -> None:
    for broken in ("deleted", "wrong type"):
        packet_id = await lab.packet(10)
        had = told(await lab.wins(packet_id, *users(4)))
        await booked(lab, packet_id, 4)
        name = lab.services.keys.packet(packet_id)._asdict()[key]
        await lab.redis("DEL", name)
        if broken == "wrong type":
            await lab.redis("SET", name, "x")

        report = await lab.services.recovery.recover()

        assert list(report.lost) == [packet_id]
        await whole(lab, packet_id, 10, had)


async def test_claims_under_way_are_waited_for_when_one_packet_is_rebuilt_under_traffic(
    services: Services,
) -> None:
    lab = MoneyLab(services)  # no relay yet: what is grabbed stays under way
    packet_id = await lab.packet(10)
    had = told(await lab.wins(packet_id, *users(4)))
    await lab.redis("DEL", services.keys.packet(packet_id).claims)

    rebuilding = asyncio.create_task(services.packet_recovery.rebuild(packet_id))
    done, _ = await asyncio.wait([rebuilding], timeout=0.3)
    assert not done
    async with running_workers(services):
        assert await rebuilding == 6
        await whole(lab, packet_id, 10, had)


async def test_while_one_partition_is_uncertified_the_others_answer_nobody_either(
    services: Services,
) -> None:
    lab = MoneyLab(services)
    packet_id = await lab.packet(10)
    await lab.wins(packet_id, *users(4))
    own = services.keys.packet(packet_id).certificate
    other = next(key for key in services.keys.certificates() if key != own)
    await lab.redis("DEL", other)

    recovering = asyncio.create_task(services.recovery.recover())

    async def answers_nobody() -> bool:
        return await status(lab, packet_id) is GrabStatus.UNCERTIFIED

    await eventually(answers_nobody, what="a revoked certificate")
    assert not recovering.done()  # it waits for the claims that are under way
    async with running_workers(services):
        assert (await recovering).certified
