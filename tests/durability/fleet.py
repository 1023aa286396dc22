"""A deployment of real processes, and the reckoning after something in it was killed."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.commands.packet import verify_packet
from app.demo.audit import Audit, audit
from app.services import Services
from lua.ids import UserId
from tests.deployment import Deployment
from tests.durability.crowd import Crowd
from tests.durability.program import Program
from tests.eventually import eventually
from tests.integration.workers.broker import Broker
from tests.servers.process import ServerProcess

SHARES: Final = 4000
USERS: Final = 6000
TOTAL_FEN: Final = 400_000
MIDDLE: Final = 2000  # answers, of which every one so far won a share
DRAIN_DEADLINE_S: Final = 40.0
TICKET_S: Final = 3600
# 503 is how the service says "ask again"; the others are how a killed one says it.
EXPECTED_TROUBLES: Final = {
    "503",
    "ServerDisconnectedError",
    "ClientOSError",
    "ClientConnectorError",
    "ConnectionResetError",
    "ClientConnectionResetError",
}


@dataclass(slots=True)
class Fleet:
    api: Program
    relay: Program
    ledger: Program
    deployment: Deployment
    broker: Broker
    packet_id: str = ""

    @property
    def services(self) -> Services:
        return self.deployment.services

    async def crowd(self) -> tuple[Crowd, list[str]]:
        """A packet, and more users with tickets for it than it has shares."""
        self.packet_id = await self.deployment.create("sender", TOTAL_FEN, SHARES)
        number = self.services.packet_ids.read(self.packet_id)
        users = [f"user{count}" for count in range(USERS)]
        expires_at_s = int(time.time()) + TICKET_S
        tickets = {
            user: f"Ticket {self.services.tickets.issue(number, UserId(user), expires_at_s).text}"
            for user in users
        }
        return Crowd(self.api.url, self.packet_id, tickets), users

    async def outbox(self) -> int:
        redis, streams = self.services.redis, self.services.keys.outboxes()
        return sum([await redis.xlen(stream) for stream in streams])

    async def reckon(self, crowd: Crowd, what: str) -> Audit:
        """Wait until all is drained; then every answer must be a row, and every fen in place."""

        async def drained() -> bool:
            return await self.outbox() == 0

        await eventually(drained, what="an empty outbox", deadline_s=DRAIN_DEADLINE_S)
        packet_id = self.services.packet_ids.read(self.packet_id)
        found = await audit(self.services.database, self.services.live, packet_id, crowd.told)
        print(
            f"\n{what}: {found.line()} grabs={crowd.answers}"
            f" slowest_s={crowd.slowest_s:.2f} longest_silence_s={crowd.longest_silence_s:.2f}"
            f" troubles={dict(crowd.troubles)}"
        )
        assert found.agrees, found.line()
        assert found.answered == SHARES
        assert await self._balances_differ(found) == []
        assert (await verify_packet(self.services.database, packet_id))[1]
        assert await self.services.database.rows("SELECT id, reason FROM dead_letter") == []
        assert await self.services.database.rows("SELECT seq, user_id FROM conflict") == []
        assert set(crowd.troubles) <= EXPECTED_TROUBLES
        return found

    async def _balances_differ(self, found: Audit) -> list[str]:
        """Users whose account holds something else than the one claim they were told of."""
        rows = await self.services.database.transaction(
            lambda work: work.rows(
                "SELECT id, balance_fen FROM account WHERE id LIKE 'user:user%%'", []
            )
        )
        balances = {row["id"].removeprefix("user:"): row["balance_fen"] for row in rows}
        told = {str(user): amount_fen for user, (_, amount_fen) in found.booked.items()}
        return [user for user in told | balances if told.get(user) != balances.get(user)]


async def kill_and_restart(victim: ServerProcess) -> None:
    """kill -9, and a start on the same ports and data."""
    await asyncio.to_thread(victim.kill)
    await asyncio.to_thread(victim.start)


async def start_all(programs: Sequence[Program]) -> None:
    await asyncio.gather(*(asyncio.to_thread(program.start) for program in programs))
