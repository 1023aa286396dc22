"""The `redpacket` command: a composition root, which is why it may import the workers."""

import argparse
import json
import logging
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import uvloop
from redis.exceptions import RedisError
from tortoise.exceptions import BaseORMException

from app.auth.packet_ids import PacketIds
from app.auth.signing import sign_token
from app.config import BadSettings, Settings, settings_from_env
from app.dev_settings import DEFAULT_DATA, dev_tokens
from app.exit_codes import COULD_NOT_RUN, DIFFERENCE, FINE
from app.packet_command import show_packet, verify_packet
from app.packets.reading import PacketUnknown
from app.redis_client import UnsafeRedis
from app.server import serve, stop_on_signals
from app.store.database import open_database

_CANNOT_RUN: Final = (BadSettings, UnsafeRedis, PacketUnknown, RedisError, BaseORMException)


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    configure_logging()
    try:
        return int(parsed.run(parsed))
    except (*_CANNOT_RUN, OSError, ValueError) as error:
        print(f"redpacket: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    except KeyboardInterrupt:
        return COULD_NOT_RUN


class _OneLineWarnings(logging.Filter):
    """A lost connection is foreseen, and the worker says so itself: no traceback of a library."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno <= logging.WARNING:
            record.exc_info = None
        return True


_ONE_LINE_WARNINGS: Final = _OneLineWarnings()


def configure_logging() -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("aiormq.connection").addFilter(_ONE_LINE_WARNINGS)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="redpacket", description="Red packets for a flash crowd.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("serve", help="answer HTTP requests")
    command.set_defaults(run=_serve)

    command = commands.add_parser("worker", help="carry claims to MySQL")
    command.add_argument("name", choices=("relay", "ledger", "opener"))
    command.add_argument("--instance", help="a name that no other worker of its kind has")
    command.set_defaults(run=_worker)

    command = commands.add_parser("dev", help="run everything in one process, with a demo crowd")
    command.add_argument("--once", action="store_true", help="end after the demo")
    command.add_argument("--port", type=int, default=8000)
    command.add_argument("--users", type=int, default=2000)
    command.add_argument("--data", default=DEFAULT_DATA, help="where its stores live")
    command.set_defaults(run=_dev)

    command = commands.add_parser("token", help="sign a bearer token (HS256 deployments)")
    command.add_argument("user_id")
    command.add_argument("--admin", action="store_true")
    command.add_argument("--hours", type=int, default=24)
    command.add_argument("--dev", action="store_true", help="for the dev mode of this folder")
    command.add_argument("--data", default=DEFAULT_DATA, help="where dev mode keeps its data")
    command.set_defaults(run=_token)

    command = commands.add_parser("packet", help="look at a packet, check its split")
    command.add_argument("verb", choices=("show", "verify"))
    command.add_argument("packet_id")
    command.add_argument("--json", action="store_true")
    command.set_defaults(run=_packet)

    command = commands.add_parser("db", help="bring the tables of MySQL up to date")
    command.add_argument("verb", choices=("migrate",))
    command.set_defaults(run=_db)
    return parser


def _run(work: Coroutine[Any, Any, int]) -> int:
    return uvloop.run(work)


def _serve(_: argparse.Namespace) -> int:
    async def work() -> int:
        await serve(settings_from_env(), stop_on_signals())
        return FINE

    return _run(work())


def _worker(parsed: argparse.Namespace) -> int:
    from workers.main import run_worker

    async def work() -> int:
        await run_worker(parsed.name, settings_from_env(), parsed.instance, stop_on_signals())
        return FINE

    return _run(work())


def _dev(parsed: argparse.Namespace) -> int:
    from app.dev import run_dev

    directory = Path(parsed.data).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    return _run(run_dev(directory, parsed.port, parsed.users, parsed.once))


def _token(parsed: argparse.Namespace) -> int:
    tokens = dev_tokens(Path(parsed.data)) if parsed.dev else settings_from_env().tokens
    print(sign_token(tokens, parsed.user_id, parsed.admin, 3600 * parsed.hours))
    return FINE


def _packet(parsed: argparse.Namespace) -> int:
    settings = settings_from_env()
    packet_id = PacketIds(settings.secret).read(parsed.packet_id)

    async def work() -> int:
        async with open_database(settings.mysql_url, 1) as database:
            if parsed.verb == "show":
                report, fine = await show_packet(database, packet_id), True
            else:
                report, fine = await verify_packet(database, packet_id)
        _print_report(report, parsed.json)
        return FINE if fine else DIFFERENCE

    return _run(work())


def _db(_: argparse.Namespace) -> int:
    async def work() -> int:
        settings: Settings = settings_from_env()
        async with open_database(settings.mysql_url, 1) as database:
            await database.migrate()
        return FINE

    return _run(work())


def _print_report(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(report, ensure_ascii=False))
        return
    for name, value in report.items():
        print(f"{name:20} {value}")


if __name__ == "__main__":
    sys.exit(main())
