"""The ledger's handler: messages in, claims booked; what can never be booked is set aside alone."""

from collections.abc import Sequence
from typing import Final, Protocol

from aio_pika.abc import AbstractIncomingMessage

from app.control.markers import book_markers, parse_marker
from app.ledger.booking import book_claims
from app.ledger.claims import Claim, Rejected, claim_body, parse_claims
from app.ledger.posting import InsufficientFunds
from app.store.database import Database, is_data_error
from workers.consumer import Consumer
from workers.topology import declare_ledger_queue

# At most ten values a claim go into one statement, and an SQLite takes 32,766.
CLAIMS_PER_TRANSACTION: Final = 3000


class Keeper(Protocol):
    """Where dead letters are kept."""

    async def put(self, rejected: Sequence[Rejected]) -> None:
        """Return when all of them are kept; raise when one may not be."""


class LedgerHandler:
    """Messages of claims, one outbox entry a line. Handling one again changes nothing."""

    def __init__(self, database: Database, dead_letters: Keeper) -> None:
        self._database = database
        self._dead_letters = dead_letters

    async def handle(self, bodies: Sequence[bytes]) -> None:
        """Return when every claim is committed or set aside; raise to be asked again."""
        claims: list[Claim] = []
        rejected: list[Rejected] = []
        markers: list[str] = []
        for body in bodies:
            for line in body.split(b"\n"):
                marker = parse_marker(line)
                if marker is not None:
                    markers.append(marker)
                    continue
                good, bad = parse_claims(line)
                claims += good
                rejected += bad
        for first in range(0, len(claims), CLAIMS_PER_TRANSACTION):
            rejected += await self.book(claims[first : first + CLAIMS_PER_TRANSACTION])
        if rejected:
            await self._dead_letters.put(rejected)
        if markers:  # last: they say that all before them is done
            await self._database.transaction(lambda work: book_markers(work, markers))

    async def book(self, claims: Sequence[Claim]) -> list[Rejected]:
        """Book in one transaction; when data is at fault, in halves until the culprit is alone."""
        if not claims:
            return []
        try:
            return await self._database.transaction(lambda work: book_claims(work, claims))
        except Exception as error:
            # An escrow short of money is one packet's trouble and must not hold up the others.
            if not isinstance(error, InsufficientFunds) and not is_data_error(error):
                raise
            if len(claims) == 1:
                return [Rejected(claim_body(claims[0]), f"cannot be booked: {error!r}")]
        half = len(claims) // 2
        return await self.book(claims[:half]) + await self.book(claims[half:])


async def replay_body(database: Database, body: bytes) -> list[Rejected]:
    """Book the body of a dead letter once more; what is refused again comes back."""
    refused: list[Rejected] = []

    class Collected:
        async def put(self, rejected: Sequence[Rejected]) -> None:
            refused.extend(rejected)

    await LedgerHandler(database, Collected()).handle([body])
    return refused


def ledger_consumer(url: str, handler: LedgerHandler) -> Consumer:
    async def handle(messages: Sequence[AbstractIncomingMessage]) -> None:
        await handler.handle([message.body for message in messages])

    return Consumer("ledger consumer", url, declare_ledger_queue, handle)


class DirectPublisher:
    """A Publisher that hands messages straight to a handler, for dev mode, which has no broker."""

    def __init__(self, handler: LedgerHandler) -> None:
        self._handler = handler

    async def publish(self, bodies: Sequence[bytes]) -> None:
        await self._handler.handle(bodies)
