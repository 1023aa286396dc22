"""Packets, claims, accounts, the ledger and idempotency keys."""

from tortoise.migrations.migration import Migration as TortoiseMigration

from app.store.dialect_sql import DialectSQL

# Ids are ASCII and compared byte by byte: "Ann" and "ann" are two users.
_ID = "CHARACTER SET ascii COLLATE ascii_bin"

MYSQL = [
    f"""
    CREATE TABLE IF NOT EXISTS packet (
        id BIGINT NOT NULL,
        sender_id VARCHAR(64) {_ID} NOT NULL,
        greeting VARCHAR(200) NOT NULL,
        kind VARCHAR(8) {_ID} NOT NULL,
        total_fen BIGINT NOT NULL,
        shares INT NOT NULL,
        min_fen BIGINT NOT NULL,
        cap_fen BIGINT NULL,
        split_version SMALLINT NOT NULL,
        seed BINARY(32) NOT NULL,
        commitment BINARY(32) NOT NULL,
        state VARCHAR(8) {_ID} NOT NULL,
        remaining_fen BIGINT NOT NULL,
        remaining_shares INT NOT NULL,
        created_at DATETIME(3) NOT NULL,
        opens_at DATETIME(3) NOT NULL,
        expires_at DATETIME(3) NOT NULL,
        PRIMARY KEY (id),
        KEY packet_of_sender (sender_id, id),
        KEY packet_due (state, expires_at),
        CONSTRAINT packet_never_overdrawn CHECK (remaining_fen >= 0 AND remaining_shares >= 0)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
    f"""
    CREATE TABLE IF NOT EXISTS claim (
        packet_id BIGINT NOT NULL,
        seq INT NOT NULL,
        user_id VARCHAR(64) {_ID} NOT NULL,
        amount_fen BIGINT NOT NULL,
        claimed_at DATETIME(3) NOT NULL,
        PRIMARY KEY (packet_id, seq),
        UNIQUE KEY claim_once_a_user (packet_id, user_id),
        KEY claim_rank (packet_id, amount_fen, seq)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    PARTITION BY KEY (packet_id) PARTITIONS 16
    """,
    f"""
    CREATE TABLE IF NOT EXISTS account (
        id VARCHAR(80) {_ID} NOT NULL,
        balance_fen BIGINT NOT NULL,
        PRIMARY KEY (id),
        CONSTRAINT account_never_overdrawn CHECK (balance_fen >= 0 OR id LIKE 'outside:%')
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
    f"""
    CREATE TABLE IF NOT EXISTS ledger_entry (
        id BIGINT NOT NULL AUTO_INCREMENT,
        journal VARCHAR(96) {_ID} NOT NULL,
        reference VARCHAR(96) {_ID} NOT NULL,
        account_id VARCHAR(80) {_ID} NOT NULL,
        amount_fen BIGINT NOT NULL,
        booked_at DATETIME(3) NOT NULL,
        PRIMARY KEY (id),
        UNIQUE KEY ledger_entry_once (reference),
        KEY ledger_entry_of_account (account_id, id)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
    f"""
    CREATE TABLE IF NOT EXISTS idempotency (
        user_id VARCHAR(64) {_ID} NOT NULL,
        `key` VARCHAR(64) {_ID} NOT NULL,
        request_hash BINARY(32) NOT NULL,
        subject VARCHAR(96) {_ID} NOT NULL,
        created_at DATETIME(3) NOT NULL,
        PRIMARY KEY (user_id, `key`)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
]

SQLITE = [
    """
    CREATE TABLE IF NOT EXISTS packet (
        id INTEGER NOT NULL PRIMARY KEY,
        sender_id TEXT NOT NULL,
        greeting TEXT NOT NULL,
        kind TEXT NOT NULL,
        total_fen INTEGER NOT NULL,
        shares INTEGER NOT NULL,
        min_fen INTEGER NOT NULL,
        cap_fen INTEGER NULL,
        split_version INTEGER NOT NULL,
        seed BLOB NOT NULL,
        commitment BLOB NOT NULL,
        state TEXT NOT NULL,
        remaining_fen INTEGER NOT NULL CHECK (remaining_fen >= 0),
        remaining_shares INTEGER NOT NULL CHECK (remaining_shares >= 0),
        created_at TIMESTAMP NOT NULL,
        opens_at TIMESTAMP NOT NULL,
        expires_at TIMESTAMP NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS packet_of_sender ON packet (sender_id, id)",
    "CREATE INDEX IF NOT EXISTS packet_due ON packet (state, expires_at)",
    """
    CREATE TABLE IF NOT EXISTS claim (
        packet_id INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        user_id TEXT NOT NULL,
        amount_fen INTEGER NOT NULL,
        claimed_at TIMESTAMP NOT NULL,
        PRIMARY KEY (packet_id, seq),
        UNIQUE (packet_id, user_id)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX IF NOT EXISTS claim_rank ON claim (packet_id, amount_fen, seq)",
    """
    CREATE TABLE IF NOT EXISTS account (
        id TEXT NOT NULL PRIMARY KEY,
        balance_fen INTEGER NOT NULL CHECK (balance_fen >= 0 OR id LIKE 'outside:%')
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS ledger_entry (
        id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        journal TEXT NOT NULL,
        reference TEXT NOT NULL UNIQUE,
        account_id TEXT NOT NULL,
        amount_fen INTEGER NOT NULL,
        booked_at TIMESTAMP NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS ledger_entry_of_account ON ledger_entry (account_id, id)",
    """
    CREATE TABLE IF NOT EXISTS idempotency (
        user_id TEXT NOT NULL,
        key TEXT NOT NULL,
        request_hash BLOB NOT NULL,
        subject TEXT NOT NULL,
        created_at TIMESTAMP NOT NULL,
        PRIMARY KEY (user_id, key)
    ) WITHOUT ROWID
    """,
]


class Migration(TortoiseMigration):
    operations = [DialectSQL({"mysql": MYSQL, "sqlite": SQLITE})]  # noqa: RUF012
