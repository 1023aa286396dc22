"""The board out of SQL is the board out of Redis, and both are what sorting says."""

import itertools
import random
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import pytest
from redis.asyncio import Redis

from app.redis_client import open_redis
from app.store.times import now_ms
from lua.certificate import Certificate, install_certificate
from lua.ids import PacketId, UserId
from lua.keys import KeySpace
from lua.replies import GrabStatus, LoadStatus, OpenStatus, Outcome
from lua.scripts import Scripts
from ranking.packet_board import PacketBoard
from ranking.rank import Rank
from ranking.sql_packet_board import SqlPacketBoard
from splitter.money import Fen
from tests.integration.store.books import Books
from tests.servers.redis import RedisServer

PACKET = PacketId(3)
LIMITS = (1, 2, 3, 8, 100)

# Claims, and how many different amounts they have.
SHAPES = [(1, 1), (2, 2), (9, 1), (150, 1), (60, 2), (150, 7), (150, 40), (120, 10**6)]


class Place(NamedTuple):
    user_id: str
    rank: int
    amount_fen: int


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncIterator[Redis]:
    client = open_redis(redis_server.url, connections=2)
    yield client
    await client.aclose()


async def grab(redis: Redis, keys: KeySpace, amounts: list[Fen], users: list[UserId]) -> Any:
    """The claims of `users` as the scripts gave them, and on the board: (seq, user, amount)."""
    token = secrets.token_hex(8)
    await install_certificate(redis, keys, token)
    scripts = Scripts(redis, keys, Certificate(token))
    assert (await scripts.load(PACKET, len(amounts), 0, amounts)).status == LoadStatus.OK
    opened = await scripts.open(
        PACKET,
        shares=len(amounts),
        total_fen=Fen(sum(amounts)),
        opens_at_ms=0,
        expires_at_ms=now_ms() + 60_000,
    )
    assert opened.status == OpenStatus.OK
    reply = await scripts.grab(PACKET, users)
    assert reply.status == GrabStatus.OK
    assert {each.outcome for each in reply.grabs} == {Outcome.GRABBED}
    grabs = zip(users, reply.grabs, strict=True)
    return [(each.seq, user_id, each.amount_fen) for user_id, each in grabs]


def places(ranks: list[Rank] | None, tier: str) -> list[Place] | None:
    if ranks is None:
        return None
    for rank in ranks:
        assert (rank.lo, rank.hi, rank.exact, rank.tier) == (rank.rank, rank.rank, True, tier)
    return [Place(rank.user_id, rank.rank, rank.amount_fen) for rank in ranks]


@pytest.mark.parametrize(("count", "different"), SHAPES)
async def test_it_agrees_with_the_board_in_redis_and_with_sorting(
    books: Books, redis: Redis, count: int, different: int
) -> None:
    rng = random.Random(count * different)
    shares = count + 3
    amounts = [Fen(rng.randint(1, different)) for _ in range(shares)]
    users = [UserId(f"user{number}") for number in rng.sample(range(count), count)]
    keys = KeySpace(4, f"t{secrets.token_hex(4)}")
    claims = await grab(redis, keys, amounts, users)
    await books.insert_claims(PACKET, rng.sample(claims, count))
    for neighbour in (PACKET - 1, PACKET + 1):
        await books.insert_claims(
            neighbour, [(seq, f"user{seq}", seq) for seq in range(1, count + 1)]
        )
    in_redis = PacketBoard(redis, keys, now_ms)
    in_sql = SqlPacketBoard(books.database.rows, now_ms)
    expected = [
        Place(user_id, rank, amount_fen)
        for rank, (seq, user_id, amount_fen) in enumerate(
            sorted(claims, key=lambda claim: (-claim[2], claim[0])), start=1
        )
    ]

    for limit in LIMITS:
        top = places(await in_sql.top(PACKET, shares, limit), "sql")
        assert top == expected[:limit]
        assert top == places(await in_redis.top(PACKET, shares, limit), "hot")
    ends = {0, 1, 2, count - 3, count - 2, count - 1} & set(range(count))
    for place in sorted(ends | set(rng.sample(range(count), min(count, 12)))):
        user_id = UserId(expected[place].user_id)
        found = await in_sql.rank(PACKET, shares, user_id)
        same = await in_redis.rank(PACKET, shares, user_id)
        assert found is not None
        assert same is not None
        assert places([found], "sql") == [expected[place]] == places([same], "hot")
        for limit in LIMITS:
            around = places(await in_sql.around(PACKET, shares, user_id, limit), "sql")
            first = max(0, min(place - limit // 2, count - limit))
            assert around == expected[first : first + limit]
            same_around = await in_redis.around(PACKET, shares, user_id, limit)
            assert around == places(same_around, "hot")


async def test_who_has_no_claim_has_no_rank(books: Books) -> None:
    board = SqlPacketBoard(books.database.rows, now_ms)
    assert await board.top(PACKET, 5, 10) == []
    await books.insert_claims(PACKET, [(1, "ann", 5)])
    await books.insert_claims(PACKET + 1, [(1, "bob", 5)])

    for stranger in (UserId("bob"), UserId("Ann")):
        assert await board.rank(PACKET, 5, stranger) is None
        assert await board.around(PACKET, 5, stranger, 10) is None


@pytest.mark.parametrize("limit", [0, 101, -1])
async def test_a_limit_out_of_range_is_refused(books: Books, limit: int) -> None:
    board = SqlPacketBoard(books.database.rows, now_ms)

    with pytest.raises(ValueError, match="limit must be 1 to 100"):
        await board.top(PACKET, 5, limit)
    with pytest.raises(ValueError, match="limit must be 1 to 100"):
        await board.around(PACKET, 5, UserId("ann"), limit)


async def test_claims_booked_between_its_statements_never_break_its_order(books: Books) -> None:
    rng = random.Random(1)
    await books.insert_claims(PACKET, [(seq, f"user{seq}", 10 * seq) for seq in range(1, 31)])
    seqs = itertools.count(31)

    async def claims_meanwhile(sql: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        if "UNION" in sql:  # its bounds were read before
            seq = next(seqs)
            await books.insert_claims(PACKET, [(seq, f"user{seq}", 10 * rng.randint(1, 40))])
        return await books.database.rows(sql, values)

    moving = SqlPacketBoard(claims_meanwhile, now_ms)
    at_rest = SqlPacketBoard(books.database.rows, now_ms)

    for limit in LIMITS:
        top = places(await moving.top(PACKET, 500, limit), "sql")
        assert top == places(await at_rest.top(PACKET, 500, limit), "sql")
        around = await moving.around(PACKET, 500, UserId("user15"), limit)
        assert around is not None
        shown = [(-rank.amount_fen, int(rank.user_id.removeprefix("user"))) for rank in around]
        assert shown == sorted(shown)
        assert (-150, 15) in shown
