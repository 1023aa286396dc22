"""`redpacket packet show` and `verify`: a packet's row, and its claims against the split."""

from typing import Any

from app.packets.reading import find_packet
from app.packets.terms import terms_of
from app.store.database import Database
from app.store.models import Claim
from app.store.times import to_ms
from lua.ids import PacketId
from splitter.proof import commitment
from splitter.split import split


async def show_packet(database: Database, packet_id: PacketId) -> dict[str, Any]:
    """The packet without its seed, which gives away what is still to be grabbed."""
    packet = await find_packet(database, packet_id)
    return {
        "id": str(packet.id),
        "sender_id": packet.sender_id,
        "terms": terms_of(packet).canonical().decode("ascii"),
        "state": packet.state,
        "remaining_fen": packet.remaining_fen,
        "remaining_shares": packet.remaining_shares,
        "commitment": bytes(packet.commitment).hex(),
        "opens_at_ms": to_ms(packet.opens_at),
        "expires_at_ms": to_ms(packet.expires_at),
    }


async def verify_packet(database: Database, packet_id: PacketId) -> tuple[dict[str, Any], bool]:
    """Whether commitment and booked claims follow from the seed, and what does not."""
    packet = await find_packet(database, packet_id)
    terms, seed = terms_of(packet), bytes(packet.seed)
    commitment_matches = commitment(seed, terms) == bytes(packet.commitment)
    amounts = split(terms, seed)
    claims = await database.read(lambda: Claim.filter(packet_id=packet_id).order_by("seq"))
    differing = [claim for claim in claims if amounts[claim.seq - 1] != claim.amount_fen]
    report = {
        "commitment_matches": commitment_matches,
        "claims": len(claims),
        "differing": len(differing),
        "first_differing_seq": differing[0].seq if differing else None,
    }
    return report, commitment_matches and not differing
