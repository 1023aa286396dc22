"""The tables as Tortoise models. The DDL itself, with keys and partitions, is in migrations/."""

from typing import Literal

from tortoise import fields
from tortoise.models import Model

PacketState = Literal["funded", "open", "closing", "settled"]


class Packet(Model):
    """What a sender funded. `remaining_*` is what no booked claim has taken."""

    id = fields.BigIntField(primary_key=True, generated=False)
    sender_id = fields.CharField(max_length=64)
    greeting = fields.CharField(max_length=200)
    kind = fields.CharField(max_length=8)
    total_fen = fields.BigIntField()
    shares = fields.IntField()
    min_fen = fields.BigIntField()
    cap_fen = fields.BigIntField(null=True)
    split_version = fields.SmallIntField()
    seed = fields.BinaryField()
    commitment = fields.BinaryField()
    state = fields.CharField(max_length=8)
    remaining_fen = fields.BigIntField()
    remaining_shares = fields.IntField()
    created_at = fields.DatetimeField()
    opens_at = fields.DatetimeField()
    expires_at = fields.DatetimeField()

    class Meta:
        table = "packet"


class Claim(Model):
    """A won grab. The key is (packet_id, seq); (packet_id, user_id) is unique too."""

    packet_id = fields.BigIntField(primary_key=True, generated=False)
    seq = fields.IntField()
    user_id = fields.CharField(max_length=64)
    amount_fen = fields.BigIntField()
    claimed_at = fields.DatetimeField()

    class Meta:
        table = "claim"


class Account(Model):
    """`user:<id>`, `packet:<id>` (the escrow of a packet) or `outside:<what>` (may be negative)."""

    id = fields.CharField(primary_key=True, max_length=80)
    balance_fen = fields.BigIntField()

    class Meta:
        table = "account"


class LedgerEntry(Model):
    """One side of a journal. The entries of a journal sum to 0."""

    id = fields.BigIntField(primary_key=True)
    journal = fields.CharField(max_length=96)
    reference = fields.CharField(max_length=96)
    account_id = fields.CharField(max_length=80)
    amount_fen = fields.BigIntField()
    booked_at = fields.DatetimeField()

    class Meta:
        table = "ledger_entry"


class Idempotency(Model):
    """What a request with an Idempotency-Key led to: `subject` names it."""

    user_id = fields.CharField(primary_key=True, max_length=64)
    key = fields.CharField(max_length=64)
    request_hash = fields.BinaryField()
    subject = fields.CharField(max_length=96)
    created_at = fields.DatetimeField()

    class Meta:
        table = "idempotency"
