"""The hot queries stay on their index, and a packet's claims in one partition."""

from typing import Any

import pytest
from tortoise.queryset import QuerySet

from app.ledger.posting import user_account
from app.packets.reading import claims_after
from app.store.database import Database
from app.store.models import Claim, LedgerEntry, Packet
from app.store.times import to_datetime, to_sql
from lua.ids import PacketId, UserId
from tests.integration.store.books import AT_MS, SENDER, Books
from tests.integration.store.plans import plan_of, steps_of
from workers.opener import overdue_packets

PACKETS = 8
CLAIMS = 400
SETTLED = 600
# MySQL 9 would rather read all rows of the packet than half of the index.
RANK = (
    "SELECT COUNT(*) FROM claim /*! FORCE INDEX (claim_rank) */ WHERE packet_id = 3"
    " AND (amount_fen > 200 OR (amount_fen = 200 AND seq < 7))"
)
TOP = (
    "SELECT amount_fen, seq FROM claim WHERE packet_id = 3"
    " ORDER BY amount_fen DESC, seq DESC LIMIT 10"
)


@pytest.fixture
async def full_books(books: Books) -> Books:
    """Enough rows that the wrong index would cost, and statistics that say so."""
    for packet_id in range(1, PACKETS + 1):
        await books.insert(
            "claim",
            *(
                {
                    "packet_id": packet_id,
                    "seq": seq,
                    "user_id": f"user{seq}",
                    "amount_fen": seq * 37 % 401,
                    "claimed_at": to_sql(AT_MS + seq),
                }
                for seq in range(1, CLAIMS + 1)
            ),
        )
    await books.insert(
        "ledger_entry",
        *(
            {
                "journal": f"j{number}",
                "reference": f"r{number}",
                "account_id": user_account(UserId(f"user{number % 40}")),
                "amount_fen": 1,
                "booked_at": to_sql(AT_MS),
            }
            for number in range(2000)
        ),
    )
    await books.insert("packet", *(_packet(number) for number in range(1, SETTLED + 1)))
    if books.database.dialect == "mysql":
        await books.rows("ANALYZE TABLE claim, ledger_entry, packet, account")
    else:
        await books.run("ANALYZE")
    return books


def _packet(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "sender_id": SENDER if number % 20 == 0 else f"sender{number}",
        "greeting": "",
        "kind": "lucky",
        "total_fen": 1,
        "shares": 1,
        "min_fen": 1,
        "split_version": 1,
        "seed": bytes(32),
        "commitment": bytes(32),
        "state": "settled" if number % 50 else "funded",
        "remaining_fen": 0,
        "remaining_shares": 0,
        "created_at": to_sql(AT_MS),
        "opens_at": to_sql(AT_MS),
        "expires_at": to_sql(AT_MS + number),
    }


def queries() -> dict[str, tuple[QuerySet[Any] | str, str, str]]:
    """Query, index in MySQL, and what SQLite says; a function because models need a database."""
    return {
        "page of claims": (
            claims_after(PacketId(3), 100).limit(100),
            "PRIMARY",
            "USING PRIMARY KEY (packet_id=? AND seq>?)",
        ),
        "claim of a user": (
            Claim.filter(packet_id=3, user_id="user7"),
            "claim_once_a_user",
            "(packet_id=? AND user_id=?)",
        ),
        "rank": (RANK, "claim_rank", "USING COVERING INDEX claim_rank"),
        "top of a board": (TOP, "claim_rank", "USING COVERING INDEX claim_rank"),
        "entries of an account": (
            LedgerEntry.filter(account_id="user:user7", id__lt=1500).order_by("-id").limit(100),
            "ledger_entry_of_account",
            "USING INDEX ledger_entry_of_account (account_id=? AND ",
        ),
        "packets to open": (
            overdue_packets(AT_MS + 60_000).limit(100),
            "packet_due",
            "USING INDEX packet_due (state=?",
        ),
        "packets to settle": (
            Packet.filter(state="funded", expires_at__lt=to_datetime(AT_MS + 300))
            .order_by("expires_at")
            .limit(100),
            "packet_due",
            "USING INDEX packet_due (state=? AND expires_at<?)",
        ),
        "packets of a sender": (
            Packet.filter(sender_id=SENDER, id__lt=500).order_by("-id").limit(20),
            "packet_of_sender",
            "USING INDEX packet_of_sender (sender_id=? AND ",
        ),
    }


QUERY_NAMES = (
    "page of claims",
    "claim of a user",
    "rank",
    "top of a board",
    "entries of an account",
    "packets to open",
    "packets to settle",
    "packets of a sender",
)


@pytest.mark.parametrize("name", QUERY_NAMES)
async def test_a_hot_query_uses_its_index(full_books: Books, name: str) -> None:
    query, index, plan = queries()[name]
    sql = query if isinstance(query, str) else query.sql(params_inline=True)

    if full_books.database.dialect == "sqlite":
        details = await steps_of(full_books, sql)
        assert plan in details[0], details
        assert not any("TEMP B-TREE" in detail for detail in details), details
        return
    [explained] = await plan_of(full_books, sql)
    assert explained["key"] == index, explained
    if index == "claim_rank":
        assert "Using index" in explained["Extra"], explained
    assert "filesort" not in explained["Extra"], explained


async def test_the_claims_of_a_packet_are_in_one_partition_by_key(mysql: Database) -> None:
    books = Books(mysql)
    partitions = await books.rows(
        "SELECT partition_method AS method, partition_expression AS expression"
        " FROM information_schema.partitions"
        " WHERE table_schema = DATABASE() AND table_name = 'claim'"
    )
    assert len(partitions) == 16
    assert {row["method"] for row in partitions} == {"KEY"}
    assert {row["expression"].strip("`") for row in partitions} == {"packet_id"}

    [explained] = await plan_of(books, RANK, partitions=True)

    assert len(explained["partitions"].split(",")) == 1
