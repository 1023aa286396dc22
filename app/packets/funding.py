"""Creates a packet: terms checked, seed committed to, the sender's money moved into escrow."""

from dataclasses import dataclass
from typing import Final

from app.auth.packet_ids import PacketIds
from app.ledger.accounts import Accounts
from app.ledger.idempotency import (
    RequestHash,
    recall_request,
    remember_request,
    request_hash,
)
from app.ledger.posting import Entry, InsufficientFunds, Journal, packet_account, post, user_account
from app.packets.splitting import Splitting, check_rankable, is_always_rankable
from app.store.database import Database, Transaction
from app.store.models import Packet
from app.store.times import now_ms, to_sql
from lua.ids import PacketId, UserId, is_on_mysql
from splitter.proof import commitment, new_seed
from splitter.terms import Terms

DEFAULT_LIFE_MS: Final = 24 * 3600 * 1000
LONGEST_LIFE_MS: Final = 7 * 24 * 3600 * 1000
LONGEST_WAIT_MS: Final = 30 * 24 * 3600 * 1000
MAX_GREETING: Final = 200


class ImpossibleSchedule(ValueError):
    """The packet would open in the past, too late, or live too long."""


@dataclass(frozen=True, slots=True)
class PacketOrder:
    """What a sender asks for. `opens_at_ms=None` is at once; it expires `life_ms` after opening."""

    sender_id: UserId
    terms: Terms
    greeting: str = ""
    opens_at_ms: int | None = None
    life_ms: int = DEFAULT_LIFE_MS

    def __post_init__(self) -> None:
        if len(self.greeting) > MAX_GREETING:
            raise ValueError(f"a greeting has at most {MAX_GREETING} characters")
        if not 1 <= self.life_ms <= LONGEST_LIFE_MS:
            raise ImpossibleSchedule(f"a packet lives 1 to {LONGEST_LIFE_MS} ms")


class Funding:
    def __init__(
        self,
        database: Database,
        accounts: Accounts,
        packet_ids: PacketIds,
        splitting: Splitting,
    ) -> None:
        self._database = database
        self._accounts = accounts
        self._packet_ids = packet_ids
        self._splitting = splitting

    async def fund(
        self, order: PacketOrder, idempotency_key: str, *, on_mysql: bool = False
    ) -> Packet:
        """Create the packet and debit its sender, both or neither; a key makes one packet.

        `on_mysql`: it is grabbed in MySQL alone, and open at once.
        Raises InsufficientFunds, ImpossibleSchedule, UnrankableShares, IdempotencyKeyReused.
        """
        packet_id = self._packet_ids.new(on_mysql=on_mysql)
        request = request_hash(
            ["create", order.terms, order.greeting, order.opens_at_ms, order.life_ms]
        )
        # What the transaction decides is asked here too, so that no split is made for nothing.
        known = await self._known(order.sender_id, idempotency_key, request)
        if known is None and await self._accounts.balance(order.sender_id) < order.terms.total_fen:
            # Low because the same request has just been paid for? Then its key is there by now.
            known = await self._known(order.sender_id, idempotency_key, request)
            if known is None:
                raise InsufficientFunds(order.sender_id)
        if known is not None:
            return await self._packet(known)
        seed = new_seed()
        if not is_always_rankable(order.terms):
            check_rankable(await self._splitting.amounts(order.terms, seed))
        created_at_ms = now_ms()
        opens_at_ms = created_at_ms if order.opens_at_ms is None else order.opens_at_ms

        async def write(transaction: Transaction) -> PacketId:
            remembered = await remember_request(
                transaction,
                order.sender_id,
                idempotency_key,
                request,
                f"packet:{packet_id}",
                created_at_ms,
            )
            if not remembered.is_new:
                return _packet_id(remembered.subject)
            # Checked here and not before: a repeated request is answered, however late it comes.
            if not created_at_ms <= opens_at_ms <= created_at_ms + LONGEST_WAIT_MS:
                raise ImpossibleSchedule(
                    f"a packet opens from now to {LONGEST_WAIT_MS} ms from now"
                )
            await _insert_packet(transaction, packet_id, order, seed, created_at_ms, opens_at_ms)
            expires_at = to_sql(opens_at_ms + order.life_ms)
            await transaction.insert(
                "INSERT INTO unsettled (packet_id, due_at)", [(packet_id, expires_at)]
            )
            await post(transaction, [_funding(packet_id, order, created_at_ms)])
            return packet_id

        funded_id = await self._database.transaction(write)
        return await self._packet(funded_id)

    async def _packet(self, packet_id: PacketId) -> Packet:
        return await self._database.read(lambda: Packet.get(id=packet_id))

    async def _known(self, user_id: UserId, key: str, request: RequestHash) -> PacketId | None:
        subject = await self._database.transaction(
            lambda work: recall_request(work, user_id, key, request)
        )
        return None if subject is None else _packet_id(subject)


def _packet_id(subject: str) -> PacketId:
    return PacketId(int(subject.removeprefix("packet:")))


def _funding(packet_id: PacketId, order: PacketOrder, at_ms: int) -> Journal:
    total_fen = order.terms.total_fen
    name = f"fund:{packet_id}"
    return Journal(
        name,
        [
            Entry(user_account(order.sender_id), -total_fen, f"{name}:sender"),
            Entry(packet_account(packet_id), total_fen, f"{name}:packet"),
        ],
        at_ms,
    )


async def _insert_packet(
    transaction: Transaction,
    packet_id: PacketId,
    order: PacketOrder,
    seed: bytes,
    created_at_ms: int,
    opens_at_ms: int,
) -> None:
    terms = order.terms
    row = {
        "id": packet_id,
        "sender_id": order.sender_id,
        "greeting": order.greeting,
        "kind": terms.kind,
        "total_fen": terms.total_fen,
        "shares": terms.shares,
        "min_fen": terms.min_fen,
        "cap_fen": terms.cap_fen,
        "split_version": terms.version,
        "seed": seed,
        "commitment": commitment(seed, terms),
        "state": "open" if is_on_mysql(packet_id) else "funded",
        "remaining_fen": terms.total_fen,
        "remaining_shares": terms.shares,
        "created_at": to_sql(created_at_ms),
        "opens_at": to_sql(opens_at_ms),
        "expires_at": to_sql(opens_at_ms + order.life_ms),
    }
    await transaction.insert(f"INSERT INTO packet ({', '.join(row)})", [list(row.values())])
