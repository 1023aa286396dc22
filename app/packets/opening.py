"""Loads a funded packet's shares into Redis and opens it; safe to repeat from any point."""

from app.packets.splitting import Splitting
from app.packets.terms import terms_of
from app.store.database import Database, Transaction
from app.store.models import Packet
from app.store.times import to_ms
from lua.ids import PacketId
from lua.replies import LoadStatus, OpenStatus
from lua.scripts import MAX_SHARES_PER_LOAD, Scripts
from splitter.money import Fen


class OpeningFailed(Exception):
    """Redis holds something else than what MySQL says of this packet. It stays unopened."""


class NotCertified(Exception):
    """Redis may have lost data and is not certified yet; the packet opens later."""


async def note_open(database: Database, packet_id: PacketId) -> None:
    """Say in MySQL that Redis answers grabs of a packet."""

    async def write(transaction: Transaction) -> None:
        await transaction.run(
            "UPDATE packet SET state = 'open' WHERE id = %s AND state = 'funded'", [packet_id]
        )

    await database.transaction(write)


class PacketOpener:
    def __init__(self, database: Database, scripts: Scripts, splitting: Splitting) -> None:
        self._database = database
        self._scripts = scripts
        self._splitting = splitting

    async def open(self, packet: Packet) -> None:
        """Make a funded packet grabbable. Raises OpeningFailed when counts or sums do not agree."""
        if packet.state != "funded":
            return
        packet_id = PacketId(packet.id)
        amounts = await self._splitting.amounts(terms_of(packet), bytes(packet.seed))
        await self._load(packet_id, amounts)
        opened = await self._scripts.open(
            packet_id,
            shares=packet.shares,
            total_fen=Fen(packet.total_fen),
            opens_at_ms=to_ms(packet.opens_at),
            expires_at_ms=to_ms(packet.expires_at),
        )
        if opened.status is OpenStatus.UNCERTIFIED:
            raise NotCertified(packet_id)
        if opened.status is OpenStatus.MISMATCH:
            raise OpeningFailed(
                f"packet {packet_id}: Redis holds {opened.loaded} shares of {opened.loaded_fen} fen"
            )
        await note_open(self._database, packet_id)
        packet.state = "open"

    async def _load(self, packet_id: PacketId, amounts: list[Fen]) -> None:
        offset = 0
        while offset < len(amounts):
            chunk = amounts[offset : offset + MAX_SHARES_PER_LOAD]
            loaded = await self._scripts.load(packet_id, len(amounts), offset, chunk)
            if loaded.status is LoadStatus.ALREADY_OPEN:
                return
            if loaded.status is LoadStatus.UNCERTIFIED:
                raise NotCertified(packet_id)
            if loaded.status is LoadStatus.GAP and loaded.loaded > offset:
                # Another version of us, with chunks of another size, got this far and died.
                offset = loaded.loaded
                continue
            if loaded.status is not LoadStatus.OK:
                raise OpeningFailed(
                    f"packet {packet_id}: chunk at {offset} refused, {loaded.status.name},"
                    f" {loaded.loaded} shares are loaded"
                )
            offset += len(chunk)
