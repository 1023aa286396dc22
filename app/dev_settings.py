"""Dev mode's settings: embedded stores in one folder, with secrets that outlive a restart."""

import secrets
from pathlib import Path
from typing import Final

from app.auth.tokens import TokenSettings
from app.config import Settings

DEFAULT_DATA: Final = ".data"
# Few partitions make one read of all outboxes cheap, and one process needs no more.
PARTITIONS: Final = 4


def dev_settings(directory: Path, redis_url: str, port: int) -> Settings:
    return Settings(
        redis_url=redis_url,
        mysql_url=f"sqlite://{directory / 'redpacket.sqlite3'}",
        secret=_kept_secret(directory / "secret"),
        tokens=dev_tokens(directory),
        port=port,
        partitions=PARTITIONS,
        mysql_connections=1,
    )


def dev_tokens(directory: Path) -> TokenSettings:
    return TokenSettings("HS256", _kept_secret(directory / "jwt-secret").decode())


def _kept_secret(path: Path) -> bytes:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32), encoding="ascii")
    return path.read_bytes()
