"""The `redpacket` command: a composition root, which is why it may import the workers."""

import argparse
import json
import logging
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import uvloop

from app.auth.packet_ids import PacketIds
from app.auth.signing import sign_token
from app.commands import dead_letters
from app.commands.packet import show_packet, verify_packet
from app.commands.reconcile import reconcile, scope_of
from app.commands.recover import recover
from app.commands.switch import listed as listed_switches
from app.commands.switch import switch, switch_name
from app.config import BadSettings, Settings, settings_from_env
from app.control.switches import Switches
from app.dev_settings import DEFAULT_DATA, dev_tokens
from app.exit_codes import CANNOT_RUN, COULD_NOT_RUN, DIFFERENCE, FINE
from app.server import serve, stop_on_signals
from app.services import open_services
from app.store.database import open_database


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    configure_logging()
    try:
        return int(parsed.run(parsed))
    except CANNOT_RUN as error:
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
    _add_processes(commands)
    _add_tools(commands)
    return parser


def _add_processes(commands: Any) -> None:
    command = commands.add_parser("serve", help="answer HTTP requests")
    command.set_defaults(run=_serve)

    command = commands.add_parser("worker", help="carry claims to MySQL, settle, recover")
    command.add_argument("name", choices=("relay", "ledger", "opener", "settle", "recover"))
    command.add_argument("--instance", help="a name that no other worker of its kind has")
    command.set_defaults(run=_worker)

    command = commands.add_parser("dev", help="run everything in one process, with a demo crowd")
    command.add_argument("--once", action="store_true", help="end after the demo")
    command.add_argument("--port", type=int, default=8000)
    command.add_argument("--users", type=int, default=2000)
    command.add_argument("--data", default=DEFAULT_DATA, help="where its stores live")
    command.set_defaults(run=_dev)


def _add_tools(commands: Any) -> None:
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

    command = commands.add_parser("recover", help="compare Redis with MySQL, rebuild, certify")
    command.add_argument("--json", action="store_true")
    command.set_defaults(run=_recover)

    command = commands.add_parser("reconcile", help="compare Redis, claim rows and ledger")
    which = command.add_mutually_exclusive_group()
    which.add_argument("--packet", metavar="PACKET_ID")
    which.add_argument("--day", metavar="YYYY-MM-DD", help="packets created that day, +08:00")
    command.add_argument("--repair", action="store_true")
    command.add_argument("--resume", action="store_true", help="go on where a run was cut off")
    command.add_argument("--json", action="store_true")
    command.set_defaults(run=_reconcile)

    command = commands.add_parser("dead-letters", help="what could not be booked")
    verbs = command.add_subparsers(required=True, dest="verb", metavar="VERB")
    verb = verbs.add_parser("list")
    verb.add_argument("--state", choices=("waiting", "replayed", "discarded"), default="waiting")
    verb.add_argument("--after", type=int, default=0, metavar="ID")
    for name in ("show", "replay", "discard"):
        verbs.add_parser(name).add_argument("letter_id", type=int)
    for verb in verbs.choices.values():
        verb.add_argument("--json", action="store_true")
    command.set_defaults(run=_dead_letters)

    command = commands.add_parser("switch", help="turn grabs, creations or a packet off and on")
    command.add_argument("state", choices=("off", "on", "list"))
    command.add_argument("what", nargs="?", help="grabs, creations, or a packet's id")
    command.add_argument("--reason", default="")
    command.add_argument("--json", action="store_true")
    command.set_defaults(run=_switch)

    command = commands.add_parser("db", help="bring the tables of MySQL up to date")
    command.add_argument("verb", choices=("migrate",))
    command.set_defaults(run=_db)


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


def _recover(parsed: argparse.Namespace) -> int:
    async def work() -> int:
        async with open_services(settings_from_env()) as services:
            report, fine = await recover(services.recovery)
        _print_report(report, parsed.json)
        return FINE if fine else DIFFERENCE

    return _run(work())


def _reconcile(parsed: argparse.Namespace) -> int:
    settings = settings_from_env()
    packet_id = PacketIds(settings.secret).read(parsed.packet) if parsed.packet else None
    scope = scope_of(packet_id, parsed.day)

    async def work() -> int:
        async with open_services(settings) as services:
            await services.redis_grabs.probe()
            report, fine = await reconcile(
                services.reconciling, scope, repair=parsed.repair, resume=parsed.resume
            )
        _print_report(report, parsed.json)
        return FINE if fine else DIFFERENCE

    return _run(work())


def _dead_letters(parsed: argparse.Namespace) -> int:
    from workers.ledger import replay_body

    async def work() -> int:
        async with open_database(settings_from_env().mysql_url, 1) as database:
            fine = True
            if parsed.verb == "list":
                _print_rows(
                    await dead_letters.listed(database, parsed.state, parsed.after), parsed.json
                )
                return FINE
            if parsed.verb == "show":
                report = await dead_letters.shown(database, parsed.letter_id)
            elif parsed.verb == "discard":
                report = await dead_letters.discarded(database, parsed.letter_id)
            else:
                report, fine = await dead_letters.replayed(
                    database, parsed.letter_id, lambda body: replay_body(database, body)
                )
        _print_report(report, parsed.json)
        return FINE if fine else DIFFERENCE

    return _run(work())


def _switch(parsed: argparse.Namespace) -> int:
    settings = settings_from_env()
    if (parsed.what is None) != (parsed.state == "list"):
        raise BadSettings("say what to switch: grabs, creations, or a packet's id")
    name = switch_name(parsed.what, PacketIds(settings.secret)) if parsed.what else None

    async def work() -> int:
        async with open_database(settings.mysql_url, 1) as database:
            switches = Switches(database)
            if name is not None:
                off = parsed.state == "off"
                await switch(switches, name, off=off, reason=parsed.reason)
            _print_rows(await listed_switches(switches), parsed.json)
        return FINE

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


def _print_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, ensure_ascii=False))
        return
    for row in rows:
        print("  ".join(f"{name}={value}" for name, value in row.items()))


if __name__ == "__main__":
    sys.exit(main())
