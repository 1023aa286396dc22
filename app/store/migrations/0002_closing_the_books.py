"""Settling, conflicts, dead letters, and what processes tell each other through MySQL."""

from tortoise.migrations.migration import Migration as TortoiseMigration

from app.store.dialect_sql import DialectSQL

_ID = "CHARACTER SET ascii COLLATE ascii_bin"

MYSQL = [
    # Only packets whose books are open have a row: finding the due ones never reads old packets.
    """
    CREATE TABLE IF NOT EXISTS unsettled (
        packet_id BIGINT NOT NULL,
        due_at DATETIME(3) NOT NULL,
        PRIMARY KEY (packet_id),
        KEY unsettled_due (due_at, packet_id)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
    """
    INSERT IGNORE INTO unsettled (packet_id, due_at)
    SELECT id, expires_at FROM packet WHERE state <> 'settled'
    """,
    f"""
    CREATE TABLE IF NOT EXISTS settlement (
        packet_id BIGINT NOT NULL,
        refund_fen BIGINT NOT NULL,
        refund_shares INT NOT NULL,
        best_seq INT NULL,
        best_user_id VARCHAR(64) {_ID} NULL,
        best_fen BIGINT NULL,
        settled_at DATETIME(3) NOT NULL,
        PRIMARY KEY (packet_id)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
    f"""
    CREATE TABLE IF NOT EXISTS conflict (
        packet_id BIGINT NOT NULL,
        seq INT NOT NULL,
        user_id VARCHAR(64) {_ID} NOT NULL,
        amount_fen BIGINT NOT NULL,
        paid_fen BIGINT NOT NULL,
        reason VARCHAR(200) NOT NULL,
        claimed_at DATETIME(3) NOT NULL,
        noted_at DATETIME(3) NOT NULL,
        PRIMARY KEY (packet_id, seq, user_id)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
    f"""
    CREATE TABLE IF NOT EXISTS dead_letter (
        id BIGINT NOT NULL AUTO_INCREMENT,
        queue VARCHAR(64) {_ID} NOT NULL,
        body MEDIUMBLOB NOT NULL,
        body_hash BINARY(32) NOT NULL,
        reason VARCHAR(1000) NOT NULL,
        state VARCHAR(9) {_ID} NOT NULL,
        times INT NOT NULL,
        noted_at DATETIME(3) NOT NULL,
        PRIMARY KEY (id),
        UNIQUE KEY dead_letter_once (queue, body_hash),
        KEY dead_letter_in_state (state, id)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
    f"""
    CREATE TABLE IF NOT EXISTS lease (
        name VARCHAR(64) {_ID} NOT NULL,
        owner VARCHAR(64) {_ID} NOT NULL,
        until DATETIME(3) NOT NULL,
        PRIMARY KEY (name)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
    f"""
    CREATE TABLE IF NOT EXISTS marker (
        name VARCHAR(64) {_ID} NOT NULL,
        booked_at DATETIME(3) NOT NULL,
        PRIMARY KEY (name),
        KEY marker_age (booked_at)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
    f"""
    CREATE TABLE IF NOT EXISTS certificate (
        name VARCHAR(64) {_ID} NOT NULL,
        run VARCHAR(128) {_ID} NOT NULL,
        token VARCHAR(64) {_ID} NOT NULL,
        certified_at DATETIME(3) NOT NULL,
        PRIMARY KEY (name)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
    f"""
    CREATE TABLE IF NOT EXISTS switched_off (
        name VARCHAR(64) {_ID} NOT NULL,
        reason VARCHAR(200) NOT NULL,
        since DATETIME(3) NOT NULL,
        PRIMARY KEY (name)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
    f"""
    CREATE TABLE IF NOT EXISTS job_progress (
        job VARCHAR(64) {_ID} NOT NULL,
        position BIGINT NOT NULL,
        noted_at DATETIME(3) NOT NULL,
        PRIMARY KEY (job)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
    # A rebuild whose process dies on a certified run is found here. The table is read whole: it
    # holds the few rebuilds that go on right now.
    f"""
    CREATE TABLE IF NOT EXISTS rebuild (
        packet_id BIGINT NOT NULL,
        token VARCHAR(64) {_ID} NOT NULL,
        noted_at DATETIME(3) NOT NULL,
        PRIMARY KEY (packet_id)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
    """,
    # Reconciling adds up whole journals, which hold entries of many accounts.
    "ALTER TABLE ledger_entry ADD KEY ledger_entry_of_journal (journal, amount_fen)",
]

SQLITE = [
    """
    CREATE TABLE IF NOT EXISTS unsettled (
        packet_id INTEGER NOT NULL PRIMARY KEY,
        due_at TIMESTAMP NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS unsettled_due ON unsettled (due_at, packet_id)",
    """
    INSERT OR IGNORE INTO unsettled (packet_id, due_at)
    SELECT id, expires_at FROM packet WHERE state <> 'settled'
    """,
    """
    CREATE TABLE IF NOT EXISTS settlement (
        packet_id INTEGER NOT NULL PRIMARY KEY,
        refund_fen INTEGER NOT NULL,
        refund_shares INTEGER NOT NULL,
        best_seq INTEGER NULL,
        best_user_id TEXT NULL,
        best_fen INTEGER NULL,
        settled_at TIMESTAMP NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS conflict (
        packet_id INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        user_id TEXT NOT NULL,
        amount_fen INTEGER NOT NULL,
        paid_fen INTEGER NOT NULL,
        reason TEXT NOT NULL,
        claimed_at TIMESTAMP NOT NULL,
        noted_at TIMESTAMP NOT NULL,
        PRIMARY KEY (packet_id, seq, user_id)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS dead_letter (
        id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        queue TEXT NOT NULL,
        body BLOB NOT NULL,
        body_hash BLOB NOT NULL,
        reason TEXT NOT NULL,
        state TEXT NOT NULL,
        times INTEGER NOT NULL,
        noted_at TIMESTAMP NOT NULL,
        UNIQUE (queue, body_hash)
    )
    """,
    "CREATE INDEX IF NOT EXISTS dead_letter_in_state ON dead_letter (state, id)",
    """
    CREATE TABLE IF NOT EXISTS lease (
        name TEXT NOT NULL PRIMARY KEY,
        owner TEXT NOT NULL,
        until TIMESTAMP NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS marker (
        name TEXT NOT NULL PRIMARY KEY,
        booked_at TIMESTAMP NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE INDEX IF NOT EXISTS marker_age ON marker (booked_at)",
    """
    CREATE TABLE IF NOT EXISTS certificate (
        name TEXT NOT NULL PRIMARY KEY,
        run TEXT NOT NULL,
        token TEXT NOT NULL,
        certified_at TIMESTAMP NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS switched_off (
        name TEXT NOT NULL PRIMARY KEY,
        reason TEXT NOT NULL,
        since TIMESTAMP NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS job_progress (
        job TEXT NOT NULL PRIMARY KEY,
        position INTEGER NOT NULL,
        noted_at TIMESTAMP NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS rebuild (
        packet_id INTEGER NOT NULL PRIMARY KEY,
        token TEXT NOT NULL,
        noted_at TIMESTAMP NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS ledger_entry_of_journal ON ledger_entry (journal, amount_fen)",
]


class Migration(TortoiseMigration):
    dependencies = [("redpacket", "0001_first_tables")]  # noqa: RUF012
    operations = [DialectSQL({"mysql": MYSQL, "sqlite": SQLITE})]  # noqa: RUF012
