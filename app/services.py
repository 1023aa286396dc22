"""Everything the routes and the workers need, opened once and handed down."""

import os
import secrets
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from redis.asyncio import Redis

from app.auth.authenticator import Authenticator
from app.auth.packet_ids import PacketIds
from app.auth.tickets import Tickets
from app.auth.tokens import Tokens
from app.config import Settings
from app.control.switches import Switches
from app.control.watching import watching
from app.grabbing.admission import Admission
from app.grabbing.backlog import BacklogGate, BacklogLimits
from app.grabbing.coalescer import Coalescer, CoalescerLimits
from app.grabbing.grab import Grabbing
from app.grabbing.mysql_grabs import MysqlGrabs
from app.grabbing.redis_grabs import RedisGrabs
from app.grabbing.sold_out import SoldOutMarks
from app.ledger.accounts import Accounts
from app.packets.funding import Funding
from app.packets.live import LivePackets
from app.packets.opening import PacketOpener
from app.packets.reading import PacketReader
from app.packets.splitting import Splitting
from app.reconciling.reconciling import Reconciling
from app.reconciling.redis_side import RedisSide
from app.recovery.certificates import Certificates
from app.recovery.deployment import Deployment
from app.recovery.in_flight import InFlightClaims
from app.recovery.packets import PacketRecovery
from app.recovery.recovery import Recovery
from app.redis_client import check_redis, open_redis
from app.settling.settling import Settling
from app.store.database import Database, open_database
from app.store.times import now_ms
from lua.certificate import Certificate
from lua.keys import KeySpace
from lua.replication import can_wait_for_fsync, replicated_call
from lua.scripts import CertifiedCall, Scripts, call_once
from ranking.packet_board import PacketBoard
from ranking.sql_packet_board import SqlPacketBoard

LOOK_EVERY_S: Final = 0.25  # a switch works within a second, everywhere
ON_MYSQL_LIMITS: Final = CoalescerLimits(calls_in_flight=1, waiting=2_000, reply_timeout_s=5.0)


@dataclass(frozen=True, slots=True)
class Services:
    deployment: Deployment
    owner: str  # who this process is where one of many works at a time
    redis: Redis
    database: Database
    keys: KeySpace
    scripts: Scripts
    packet_ids: PacketIds
    tickets: Tickets
    authenticator: Authenticator
    switches: Switches
    backlog: BacklogGate
    admission: Admission
    redis_grabs: RedisGrabs
    grabbing: Grabbing
    funding: Funding
    opener: PacketOpener
    live: LivePackets
    reader: PacketReader
    board: PacketBoard
    booked_board: SqlPacketBoard
    accounts: Accounts
    splitting: Splitting
    in_flight: InFlightClaims
    packet_recovery: PacketRecovery
    recovery: Recovery
    settling: Settling
    reconciling: Reconciling


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Connect and wire. Raises UnsafeRedis where Redis does not keep what it is told."""
    redis = open_redis(settings.redis_url, settings.redis_connections)
    splitting = Splitting()
    try:
        await check_redis(redis, settings.durability)
        call_grab: CertifiedCall = call_once
        if settings.durability == "replica":
            call_grab = replicated_call(redis, with_fsync=await can_wait_for_fsync(redis))
        async with open_database(settings.mysql_url, settings.mysql_connections) as database:
            services = _wire(settings, redis, database, splitting, call_grab)
            looks = [
                ("certificate", services.redis_grabs.refresh_certificate, LOOK_EVERY_S),
                ("switches", services.switches.refresh, LOOK_EVERY_S),
                ("backlog", services.admission.look_at_backlog, LOOK_EVERY_S),
            ]
            async with watching(*looks):
                yield services
                await services.grabbing.drain()
            await services.redis_grabs.shut_down()
    finally:
        splitting.close()
        await redis.aclose()


def _wire(
    settings: Settings,
    redis: Redis,
    database: Database,
    splitting: Splitting,
    call_grab: CertifiedCall,
) -> Services:
    keys = KeySpace(settings.partitions, settings.key_prefix)
    certificate = Certificate()
    certificates = Certificates(database)
    deployment = Deployment(settings.secret)
    scripts = Scripts(redis, keys, certificate, call_grab)
    packet_ids = PacketIds(settings.secret)
    tickets = Tickets(settings.secret)
    live = LivePackets(redis, keys)
    accounts = Accounts(database)
    switches = Switches(database)
    backlog = BacklogGate(
        redis, keys, BacklogLimits(settings.backlog_entries, settings.backlog_messages)
    )
    reader = PacketReader(database, live, lambda: not redis_grabs.breaker.is_open)
    sold_out = SoldOutMarks(reader.winners, time.monotonic)
    redis_grabs = RedisGrabs(scripts, certificates, certificate, sold_out.forget_all)
    admission = Admission(switches, redis_grabs.breaker, backlog)
    on_mysql = Coalescer(MysqlGrabs(database).grab, ON_MYSQL_LIMITS)
    in_flight = InFlightClaims(redis, keys, database)
    packet_recovery = PacketRecovery(database, redis, keys, scripts, splitting, in_flight)
    opener = PacketOpener(database, scripts, splitting)
    settling = Settling(database, scripts, live, packet_recovery)
    redis_side = RedisSide(database, redis, keys, live, packet_recovery)
    owner = f"{socket.gethostname()[:32]}:{os.getpid()}:{secrets.token_hex(4)}"
    return Services(
        deployment=deployment,
        owner=owner,
        redis=redis,
        database=database,
        keys=keys,
        scripts=scripts,
        packet_ids=packet_ids,
        tickets=tickets,
        authenticator=Authenticator(Tokens(settings.tokens, time.time), tickets),
        switches=switches,
        backlog=backlog,
        admission=admission,
        redis_grabs=redis_grabs,
        grabbing=Grabbing(admission, sold_out, redis_grabs.coalescer, on_mysql, reader),
        funding=Funding(database, accounts, packet_ids, splitting),
        opener=opener,
        live=live,
        reader=reader,
        board=PacketBoard(redis, keys, now_ms),
        booked_board=SqlPacketBoard(database.rows, now_ms),
        accounts=accounts,
        splitting=splitting,
        in_flight=in_flight,
        packet_recovery=packet_recovery,
        recovery=Recovery(
            *(database, redis, keys, scripts, packet_recovery, in_flight, certificates),
            *(deployment, owner),
            lambda: check_redis(redis, settings.durability),
        ),
        settling=settling,
        reconciling=Reconciling(
            *(database, scripts, splitting, redis_side, in_flight, packet_recovery),
            *(opener, settling),
        ),
    )
