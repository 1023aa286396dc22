"""Closes the books of one packet, once, whoever tries and however often."""

import logging
from enum import Enum
from typing import Any, Final, NamedTuple

from redis.exceptions import ResponseError

from app.ledger.posting import Entry, Journal, packet_account, post, user_account
from app.packets.live import LivePackets
from app.packets.reading import find_packet
from app.recovery.packets import PacketRecovery
from app.settling.retiring import KEEP_MS
from app.store.database import Database, Transaction
from app.store.times import now_ms
from lua.ids import PacketId, UserId, is_on_mysql
from lua.keys import is_wrong_type
from lua.replies import Closed, CloseStatus
from lua.scripts import Scripts
from splitter.money import Fen

log = logging.getLogger(__name__)


class Settled(Enum):
    NOW = "settled"
    BEFORE = "was settled before"
    NOT_DUE = "can still be grabbed"
    UNDER_WAY = "claims are still on their way to the ledger"
    NOT_READY = "Redis does not answer for it yet"


class BooksDiffer(Exception):
    """Claim rows and the packet's row do not add up: nothing is paid before they are reconciled."""


class _Best(NamedTuple):
    seq: int
    user_id: UserId
    amount_fen: int


class Settling:
    """Open → closing → settled. Each step is conditional, so that two settlers make one refund."""

    def __init__(
        self,
        database: Database,
        scripts: Scripts,
        live: LivePackets,
        recovery: PacketRecovery,
    ) -> None:
        self._database = database
        self._scripts = scripts
        self._live = live
        self._recovery = recovery

    async def settle(self, packet_id: PacketId) -> Settled:
        """Do as much of it as can be done now. Raises BooksDiffer, PacketUnknown."""
        await self._begin_closing(packet_id)
        packet = await find_packet(self._database, packet_id)
        if packet.state == "settled":
            await self._retire(packet_id)
            return Settled.BEFORE
        if packet.state != "closing":
            return Settled.NOT_DUE
        if not is_on_mysql(packet_id):
            closed = await self._close(packet_id)
            if closed.status is CloseStatus.NOT_DUE:
                return Settled.NOT_DUE
            if closed.status is not CloseStatus.OK:
                return Settled.NOT_READY
            if not await self._is_booked(packet_id, closed):
                return Settled.UNDER_WAY
        if not await self._database.transaction(lambda work: _close_books(work, packet_id)):
            return Settled.BEFORE
        await self._retire(packet_id)
        return Settled.NOW

    async def _close(self, packet_id: PacketId) -> Closed:
        """Close it in Redis; what Redis lost of it is put back before."""
        try:
            closed = await self._scripts.close(packet_id)
            damage = closed.status.name if closed.status in _LOST else None
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            damage = "a key of the wrong type"
        if damage is not None:
            log.error("packet %d: %s in Redis; rebuilding it", packet_id, damage)
            await self._recovery.rebuild(packet_id)
            closed = await self._scripts.close(packet_id)
        return closed

    async def _begin_closing(self, packet_id: PacketId) -> None:
        async def write(transaction: Transaction) -> None:
            await transaction.run(
                "UPDATE packet SET state = 'closing' WHERE id = %s AND state = 'open' AND EXISTS"
                " (SELECT 1 FROM unsettled WHERE packet_id = %s"
                f" AND due_at <= {transaction.now()})",
                [packet_id, packet_id],
            )

        await self._database.transaction(write)

    async def _is_booked(self, packet_id: PacketId, closed: Closed) -> bool:
        """Whether MySQL knows every claim that Redis gave: as a row, or set aside as a conflict."""
        [row] = await self._database.rows(
            "SELECT shares - remaining_shares AS booked FROM packet WHERE id = %s", [packet_id]
        )
        if row["booked"] == closed.claimed:
            return True
        known = await self._known_claims(packet_id)
        missing = 0
        async for user_id, grab in self._live.claims(packet_id):
            missing += (grab.seq, user_id) not in known
        if missing == 0:
            return True
        log.info("packet %d: %d claims are not booked yet", packet_id, missing)
        return False

    async def _known_claims(self, packet_id: PacketId) -> set[tuple[int, UserId]]:
        rows = await self._database.rows(
            "SELECT seq, user_id FROM claim WHERE packet_id = %s UNION"
            " SELECT seq, user_id FROM conflict WHERE packet_id = %s",
            [packet_id, packet_id],
        )
        return {(row["seq"], UserId(row["user_id"])) for row in rows}

    async def _retire(self, packet_id: PacketId) -> None:
        """Let Redis forget the packet in time. Only then is it off the list: it is found again."""
        if not is_on_mysql(packet_id):
            await self._scripts.retire(packet_id, KEEP_MS)

        async def write(transaction: Transaction) -> None:
            await transaction.run("DELETE FROM unsettled WHERE packet_id = %s", [packet_id])

        await self._database.transaction(write)


_LOST: Final = (CloseStatus.UNKNOWN, CloseStatus.INCONSISTENT)


async def _close_books(transaction: Transaction, packet_id: PacketId) -> bool:
    """Refund what is left, crown the best luck and mark the packet settled; False if it was."""
    lock = "FOR UPDATE" if transaction.dialect == "mysql" else ""
    [packet] = await transaction.rows(
        "SELECT sender_id, state, total_fen, shares, remaining_fen, remaining_shares"
        f" FROM packet WHERE id = %s {lock}",
        [packet_id],
    )
    if packet["state"] != "closing":
        return False
    await _check_rows(transaction, packet_id, packet)
    refund_fen = packet["remaining_fen"]
    best = await _best_luck(transaction, packet_id)
    await transaction.run(
        "INSERT INTO settlement (packet_id, refund_fen, refund_shares, best_seq, best_user_id,"
        f" best_fen, settled_at) VALUES (%s, %s, %s, %s, %s, %s, {transaction.now()})",
        [packet_id, refund_fen, packet["remaining_shares"], *(best or (None, None, None))],
    )
    if refund_fen > 0:
        await post(transaction, [refund_journal(packet_id, packet["sender_id"], refund_fen)])
    await transaction.run(
        "UPDATE packet SET state = 'settled' WHERE id = %s AND state = 'closing'", [packet_id]
    )
    return True


async def _check_rows(
    transaction: Transaction, packet_id: PacketId, packet: dict[str, Any]
) -> None:
    """The same fact twice: what the packet's row says is left, and what its claims add up to."""
    [claims] = await transaction.rows(
        "SELECT COUNT(*) AS claims, COALESCE(SUM(amount_fen), 0) AS claimed_fen"
        " FROM claim WHERE packet_id = %s",
        [packet_id],
    )
    if (
        claims["claims"] + packet["remaining_shares"] != packet["shares"]
        or claims["claimed_fen"] + packet["remaining_fen"] != packet["total_fen"]
    ):
        raise BooksDiffer(
            f"packet {packet_id}: {claims['claims']} claims of {claims['claimed_fen']} fen, and"
            f" {packet['remaining_shares']} shares of {packet['remaining_fen']} fen left,"
            f" of {packet['shares']} shares of {packet['total_fen']} fen"
        )


async def _best_luck(transaction: Transaction, packet_id: PacketId) -> _Best | None:
    """The largest share; of equal ones the first claimed, which has the lowest seq."""
    rows = await transaction.rows(
        "SELECT seq, user_id, amount_fen FROM claim WHERE packet_id = %s AND amount_fen ="
        " (SELECT MAX(amount_fen) FROM claim WHERE packet_id = %s) ORDER BY seq LIMIT 1",
        [packet_id, packet_id],
    )
    return _Best(rows[0]["seq"], rows[0]["user_id"], rows[0]["amount_fen"]) if rows else None


def refund_journal(packet_id: PacketId, sender_id: UserId, amount_fen: Fen) -> Journal:
    name = f"refund:{packet_id}"
    return Journal(
        name,
        [
            Entry(packet_account(packet_id), -amount_fen, f"{name}:packet"),
            Entry(user_account(sender_id), amount_fen, f"{name}:sender"),
        ],
        now_ms(),
    )
