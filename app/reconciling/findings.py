"""What reconciling can find: states that a lost step, or a lost store, leaves behind."""

from typing import Final, Literal, NamedTuple

from lua.ids import PacketId

Kind = Literal[
    # between Redis and MySQL
    "redis_lost",
    "redis_shares_differ",
    "redis_board_differs",
    "claim_not_booked",
    "open_not_noted",
    "not_opened",
    "not_retired",
    # between claim rows and ledger
    "row_without_posting",
    "posting_without_row",
    "journal_unbalanced",
    "remaining_differs",
    "balance_differs",
    "funding_missing",
    "conflict_not_paid",
    # at the end of a packet's life
    "not_due_listed",
    "settlement_incomplete",
    "settlement_differs",
    "refund_differs",
    "not_settled",
    # what no repair can decide
    "amount_not_of_the_split",
    "posting_differs",
    "commitment_differs",
]

# Nobody but a person can say which side of these is right.
UNREPAIRABLE: Final[frozenset[Kind]] = frozenset(
    ("amount_not_of_the_split", "posting_differs", "commitment_differs", "refund_differs")
)
# A claim that is still on its way looks like this, until everything under way has arrived.
MAY_BE_UNDER_WAY: Final[frozenset[Kind]] = frozenset(("claim_not_booked",))


class Finding(NamedTuple):
    packet_id: PacketId
    kind: Kind
    detail: str
