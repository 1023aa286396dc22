"""The ledger's handler: messages in, claims booked; what can never be booked is set aside alone."""

import logging
from collections.abc import Sequence
from typing import Final

from app.ledger.claims import Claim, Rejected, book_claims, claim_body, parse_claims
from app.ledger.posting import InsufficientFunds
from app.store.database import Database, is_data_error
from workers.dead_letters import DeadLetters

log = logging.getLogger(__name__)

# At most ten values a claim go into one statement, and an SQLite takes 32,766.
CLAIMS_PER_TRANSACTION: Final = 3000


class LedgerHandler:
    """Messages of claims, one outbox entry a line. Handling one again changes nothing."""

    def __init__(self, database: Database, dead_letters: DeadLetters) -> None:
        self._database = database
        self._dead_letters = dead_letters

    async def handle(self, bodies: Sequence[bytes]) -> None:
        """Return when every claim is committed or set aside; raise to be asked again."""
        claims: list[Claim] = []
        rejected: list[Rejected] = []
        for body in bodies:
            for line in body.split(b"\n"):
                good, bad = parse_claims(line)
                claims += good
                rejected += bad
        for first in range(0, len(claims), CLAIMS_PER_TRANSACTION):
            rejected += await self._book(claims[first : first + CLAIMS_PER_TRANSACTION])
        if rejected:
            for body_of_claim, reason in rejected:
                log.error("dead letter: %.300s: %.300s", reason, body_of_claim)
            await self._dead_letters.put(rejected)

    async def _book(self, claims: Sequence[Claim]) -> list[Rejected]:
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
        return await self._book(claims[:half]) + await self._book(claims[half:])


class DirectPublisher:
    """A Publisher that hands messages straight to a handler, for dev mode, which has no broker."""

    def __init__(self, handler: LedgerHandler) -> None:
        self._handler = handler

    async def publish(self, bodies: Sequence[bytes]) -> None:
        await self._handler.handle(bodies)
