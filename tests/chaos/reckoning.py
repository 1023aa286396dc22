"""Compares what clients were told with what the stores hold, and the books with themselves."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.commands.packet import verify_packet
from app.services import Services
from app.store.times import to_ms
from lua.ids import PacketId, is_on_mysql
from tests.chaos.senders import TOP_UP_FEN, Created
from tests.chaos.told import Told, ToldClaim

EXAMPLES: Final = 5


@dataclass(slots=True)
class Reckoning:
    """`lost`: told, but not booked so. `doubled`: a user or a share with more than one claim.

    `conflicts`: users who were told two different things, or a refusal and yet have a claim.
    """

    told: int = 0
    claims: int = 0  # in Redis
    rows: int = 0  # in MySQL
    lost: int = 0
    doubled: int = 0
    conflicts: int = 0
    fen_adrift: int = 0
    failures: list[str] = field(default_factory=list)

    def fail(self, what: str) -> None:
        self.failures.append(what)


async def reckon(services: Services, told: Told, created: Sequence[Created]) -> Reckoning:
    found = Reckoning()
    await _check_packets(services, told, created, found)
    await _check_ledger(services, found)
    await _check_senders(services, created, found)
    return found


async def _check_packets(
    services: Services, told: Told, created: Sequence[Created], found: Reckoning
) -> None:
    rows = await _rows(services, "SELECT * FROM packet")
    packets = {row["id"]: row for row in rows}
    wanted = {packet.packet_id: packet for packet in created}
    if len(wanted) != len(created):
        found.fail("one packet was created with two keys")
    if packets.keys() != wanted.keys():
        differing = sorted(packets.keys() ^ wanted.keys())
        found.fail(f"packets that were not answered, or are not there: {differing[:EXAMPLES]}")
    for packet_id, row in packets.items():
        packet = wanted.get(packet_id)
        asked = None if packet is None else (packet.sender_id, packet.total_fen, packet.shares)
        if packet is not None and asked != (row["sender_id"], row["total_fen"], row["shares"]):
            found.fail(f"packet {packet_id} is not what {packet.sender_id} asked for")
        if row["state"] == "funded":
            found.fail(f"packet {packet_id} was never opened")
        await _check_packet(services, told, row, found)


async def _check_packet(
    services: Services, told: Told, packet: dict[str, Any], found: Reckoning
) -> None:
    packet_id = PacketId(packet["id"])
    rows = await _rows(
        services,
        "SELECT user_id, seq, amount_fen, claimed_at FROM claim WHERE packet_id = %s",
        [packet_id],
    )
    booked = {
        row["user_id"]: ToldClaim(
            row["user_id"], row["seq"], row["amount_fen"], to_ms(row["claimed_at"])
        )
        for row in rows
    }
    found.rows += len(rows)
    duplicates = 2 * len(rows) - len(booked) - len({row["seq"] for row in rows})
    if duplicates or len(rows) > packet["shares"]:
        found.doubled += duplicates
        found.fail(f"packet {packet_id}: {len(rows)} rows, {duplicates} of them twice")
    _compare(packet_id, told, booked, found)
    await _compare_with_redis(services, packet, len(rows), found)
    paid_fen = sum(row["amount_fen"] for row in rows)
    await _check_money(services, packet, paid_fen, found)
    if not (await verify_packet(services.database, packet_id))[1]:
        found.fail(f"packet {packet_id}: claims do not follow from its seed")


def _compare(
    packet_id: PacketId, told: Told, booked: dict[str, ToldClaim], found: Reckoning
) -> None:
    answers: defaultdict[str, list[ToldClaim]] = defaultdict(list)
    for answer in told.of_packet(packet_id):
        answers[answer.user_id].append(answer)
    for user_id, of_user in answers.items():
        if len(of_user) > 1 or (of_user[0].is_refusal and user_id in booked):
            found.conflicts += 1
            found.fail(f"packet {packet_id}: told {of_user}, booked {booked.get(user_id)}")
        for claim in of_user:
            if not claim.is_refusal and claim != booked.get(user_id):
                found.lost += 1
                found.fail(f"packet {packet_id}: told {claim}, booked {booked.get(user_id)}")
    claims = [one for of_user in answers.values() for one in of_user if not one.is_refusal]
    found.told += len(claims)
    twice = sum(count - 1 for count in Counter(claim.seq for claim in claims).values())
    if twice:
        found.doubled += twice
        found.fail(f"packet {packet_id}: {twice} shares were told to two users")


async def _compare_with_redis(
    services: Services, packet: dict[str, Any], rows: int, found: Reckoning
) -> None:
    if is_on_mysql(packet["id"]):
        found.claims += rows
        return
    counts = await services.live.counts(packet["id"])
    if counts is None:
        # A settled packet may have left Redis; until then it has to be there.
        if packet["state"] != "settled":
            found.fail(f"packet {packet['id']}: Redis does not hold all of it")
        found.claims += rows
        return
    found.claims += counts.claimed
    if counts.claimed != rows:
        found.fail(f"packet {packet['id']}: {counts.claimed} claims in Redis, {rows} rows")


async def _check_money(
    services: Services, packet: dict[str, Any], paid_fen: int, found: Reckoning
) -> None:
    """Claims, what was refunded and what remains are the total; the escrow holds what remains."""
    packet_id = packet["id"]
    [refund] = await _rows(
        services,
        "SELECT COALESCE(SUM(amount_fen), 0) AS fen FROM ledger_entry"
        " WHERE account_id = %s AND amount_fen < 0 AND journal NOT LIKE 'claims:%%'",
        [f"packet:{packet_id}"],
    )
    accounts = await _rows(
        services, "SELECT balance_fen FROM account WHERE id = %s", [f"packet:{packet_id}"]
    )
    escrow_fen = sum(row["balance_fen"] for row in accounts)
    remaining_fen = packet["total_fen"] - paid_fen + int(refund["fen"])
    adrift = abs(escrow_fen - remaining_fen)
    if packet["state"] != "settled":
        adrift += abs(packet["remaining_fen"] - remaining_fen)
    if adrift:
        found.fen_adrift += adrift
        found.fail(f"packet {packet_id}: {adrift} fen adrift")


async def _check_ledger(services: Services, found: Reckoning) -> None:
    unbalanced = await _rows(
        services,
        "SELECT journal, SUM(amount_fen) AS fen FROM ledger_entry"
        " GROUP BY journal HAVING SUM(amount_fen) <> 0",
    )
    differing = await _rows(
        services,
        "SELECT a.id, a.balance_fen - COALESCE(SUM(e.amount_fen), 0) AS fen FROM account a"
        " LEFT JOIN ledger_entry e ON e.account_id = a.id GROUP BY a.id, a.balance_fen"
        " HAVING a.balance_fen <> COALESCE(SUM(e.amount_fen), 0)",
    )
    orphans = await _rows(
        services,
        "SELECT e.account_id AS id, SUM(e.amount_fen) AS fen FROM ledger_entry e"
        " LEFT JOIN account a ON a.id = e.account_id WHERE a.id IS NULL GROUP BY e.account_id",
    )
    total = await _rows(services, "SELECT COALESCE(SUM(balance_fen), 0) AS fen FROM account")
    for what, rows in (
        ("journals do not sum to 0", unbalanced),
        ("balances differ from their entries", differing),
        ("entries have no account", orphans),
        ("the sum of all accounts is not 0", [row for row in total if row["fen"]]),
    ):
        if rows:
            found.fen_adrift += sum(abs(int(row["fen"])) for row in rows)
            found.fail(f"{len(rows)} {what}: {rows[:EXAMPLES]}")


async def _check_senders(services: Services, created: Sequence[Created], found: Reckoning) -> None:
    """A sender has what was topped up, less every packet, plus every refund."""
    spent: Counter[str] = Counter()
    for packet in created:
        spent[packet.sender_id] += packet.total_fen
    rows = await _rows(
        services,
        "SELECT account_id, SUM(amount_fen) AS fen FROM ledger_entry"
        " WHERE account_id LIKE 'user:sender%%'"
        " AND (journal LIKE 'top-up:%%' OR journal LIKE 'fund:%%') GROUP BY account_id",
    )
    for row in rows:
        sender_id = row["account_id"].removeprefix("user:")
        adrift = abs(int(row["fen"]) - (TOP_UP_FEN - spent[sender_id]))
        if adrift:
            found.fen_adrift += adrift
            found.fail(f"{sender_id} is off by {adrift} fen")


async def _rows(services: Services, sql: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
    return await services.database.transaction(lambda work: work.rows(sql, values))
