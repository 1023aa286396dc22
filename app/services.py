"""Everything the routes need, opened once and handed down."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redis.asyncio import Redis

from app.auth.authenticator import Authenticator
from app.auth.packet_ids import PacketIds
from app.auth.tickets import Tickets
from app.auth.tokens import Tokens
from app.config import Settings
from app.grabbing.coalescer import Coalescer, CoalescerLimits
from app.grabbing.grab import Grabbing
from app.grabbing.sold_out import SoldOutMarks
from app.ledger.accounts import Accounts
from app.packets.funding import Funding
from app.packets.live import LivePackets
from app.packets.opening import PacketOpener
from app.packets.reading import PacketReader
from app.packets.splitting import Splitting
from app.redis_client import check_redis, open_redis
from app.store.database import Database, open_database
from app.store.times import now_ms
from lua.keys import KeySpace
from lua.scripts import Scripts
from ranking.packet_board import PacketBoard


@dataclass(frozen=True, slots=True)
class Services:
    redis: Redis
    database: Database
    keys: KeySpace
    scripts: Scripts
    packet_ids: PacketIds
    tickets: Tickets
    authenticator: Authenticator
    coalescer: Coalescer
    grabbing: Grabbing
    funding: Funding
    opener: PacketOpener
    live: LivePackets
    reader: PacketReader
    board: PacketBoard
    accounts: Accounts


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Connect and wire. Raises UnsafeRedis where Redis does not keep what it is told."""
    keys = KeySpace(settings.partitions, settings.key_prefix)
    redis = open_redis(settings.redis_url, settings.redis_connections)
    splitting = Splitting()
    try:
        await check_redis(redis, settings.durability)
        async with open_database(settings.mysql_url, settings.mysql_connections) as database:
            services = _wire(settings, keys, redis, database, splitting)
            yield services
            await services.coalescer.drain()
    finally:
        splitting.close()
        await redis.aclose()


def _wire(
    settings: Settings, keys: KeySpace, redis: Redis, database: Database, splitting: Splitting
) -> Services:
    scripts = Scripts(redis, keys)
    packet_ids = PacketIds(settings.secret)
    tickets = Tickets(settings.secret)
    live = LivePackets(redis, keys)
    accounts = Accounts(database)
    coalescer = Coalescer(scripts.grab, CoalescerLimits())
    return Services(
        redis=redis,
        database=database,
        keys=keys,
        scripts=scripts,
        packet_ids=packet_ids,
        tickets=tickets,
        authenticator=Authenticator(Tokens(settings.tokens, time.time), tickets),
        coalescer=coalescer,
        grabbing=Grabbing(coalescer, SoldOutMarks(live.winners, time.monotonic)),
        funding=Funding(database, accounts, packet_ids, splitting),
        opener=PacketOpener(database, scripts, splitting),
        live=live,
        reader=PacketReader(database, live),
        board=PacketBoard(redis, keys, now_ms),
        accounts=accounts,
    )
