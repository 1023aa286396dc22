"""Packets, grabs, and the books afterwards, on real Redis and MariaDB; claims booked when told."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from app.ledger.dead_letters import DeadLetters
from app.packets.funding import PacketOrder
from app.services import Services
from app.settling.settling import Settled
from app.store.models import Packet
from app.store.times import to_sql
from lua.ids import PacketId, UserId
from lua.replies import Grab, Outcome
from lua.script import CommandRunner
from splitter.money import Fen
from splitter.terms import Terms
from workers.ledger import DirectPublisher, LedgerHandler
from workers.relay import Relay, RelayLimits
from workers.topology import LEDGER_QUEUE

SENDER = UserId("sender")
LONG_AGO_MS = 1_000_000_000_000


@dataclass(slots=True)
class MoneyLab:
    services: Services

    async def packet(self, shares: int, *, on_mysql: bool = False, total_fen: int = 0) -> PacketId:
        total = Fen(total_fen or shares * 100)
        await self.services.accounts.top_up(SENDER, SENDER, total, secrets.token_hex(8))
        order = PacketOrder(SENDER, Terms("lucky", total, shares))
        packet = await self.services.funding.fund(order, secrets.token_hex(8), on_mysql=on_mysql)
        await self.services.opener.open(packet)
        return PacketId(packet.id)

    async def grab(self, packet_id: PacketId, *users: str) -> list[Grab]:
        return [await self.services.grabbing.grab(packet_id, UserId(user)) for user in users]

    async def wins(self, packet_id: PacketId, *users: str) -> dict[str, Grab]:
        grabs = await self.grab(packet_id, *users)
        assert all(grab.outcome == Outcome.GRABBED for grab in grabs), grabs
        return dict(zip(users, grabs, strict=True))

    def relay(self) -> Relay:
        services = self.services
        handler = LedgerHandler(services.database, DeadLetters(services.database, LEDGER_QUEUE))
        limits = RelayLimits(block_ms=50)
        return Relay(
            *(services.redis, services.keys, services.deployment),
            *(DirectPublisher(handler), "lab", limits),
        )

    async def book(self) -> None:
        """Carry all that is in the outbox into MySQL."""
        await self.relay().drain()

    async def expire(self, packet_id: PacketId) -> None:
        await self.run(
            "UPDATE packet SET expires_at = %s WHERE id = %s", to_sql(LONG_AGO_MS), packet_id
        )
        await self.run(
            "UPDATE unsettled SET due_at = %s WHERE packet_id = %s", to_sql(LONG_AGO_MS), packet_id
        )
        meta = self.services.keys.packet(packet_id).meta
        if await self.services.redis.exists(meta):
            await self.redis("HSET", meta, "expires_at_ms", LONG_AGO_MS)

    async def settle(self, packet_id: PacketId) -> Settled:
        return await self.services.settling.settle(packet_id)

    async def run(self, sql: str, *values: Any) -> int:
        return await self.services.database.transaction(lambda work: work.run(sql, list(values)))

    async def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        return await self.services.database.rows(sql, list(values))

    async def redis(self, *command: Any) -> Any:
        return await cast(CommandRunner, self.services.redis).execute_command(*command)

    async def row(self, packet_id: PacketId) -> Packet:
        return await self.services.reader.packet(packet_id)

    async def balance(self, account: str) -> int:
        rows = await self.rows("SELECT balance_fen FROM account WHERE id = %s", account)
        return rows[0]["balance_fen"] if rows else 0

    async def claims(self, packet_id: PacketId) -> dict[str, tuple[int, int]]:
        rows = await self.rows(
            "SELECT user_id, seq, amount_fen FROM claim WHERE packet_id = %s", packet_id
        )
        return {row["user_id"]: (row["seq"], row["amount_fen"]) for row in rows}

    async def refunds(self, packet_id: PacketId) -> list[int]:
        rows = await self.rows(
            "SELECT amount_fen FROM ledger_entry WHERE reference = %s", f"refund:{packet_id}:sender"
        )
        return [row["amount_fen"] for row in rows]

    async def conflicts(self) -> list[dict[str, Any]]:
        return await self.rows("SELECT * FROM conflict ORDER BY seq, user_id")

    async def balanced(self) -> None:
        """Every journal sums to 0, every balance is its entries' sum, and all money is 0."""
        assert (
            await self.rows(
                "SELECT journal FROM ledger_entry GROUP BY journal HAVING SUM(amount_fen) <> 0"
            )
            == []
        )
        differing = await self.rows(
            "SELECT a.id FROM account a LEFT JOIN (SELECT account_id, SUM(amount_fen) AS fen"
            " FROM ledger_entry GROUP BY account_id) e ON e.account_id = a.id"
            " WHERE a.balance_fen <> COALESCE(e.fen, 0)"
        )
        assert differing == []
        [row] = await self.rows("SELECT COALESCE(SUM(balance_fen), 0) AS fen FROM account")
        assert row["fen"] == 0


def told(wins: dict[str, Grab]) -> dict[str, tuple[int, int]]:
    return {user: (grab.seq, grab.amount_fen) for user, grab in wins.items()}


def users(count: int, first: int = 1) -> Iterable[str]:
    return [f"u{number}" for number in range(first, first + count)]
