"""recover, reconcile, dead-letters, switch: as an operator or a cron job calls them."""

import asyncio
import json
import os
import subprocess
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from app.config import Settings
from app.ledger.claims import Rejected
from app.ledger.dead_letters import DeadLetters
from app.services import Services
from tests.deployment import running_workers
from tests.durability.program import environment_of, redpacket
from tests.eventually import eventually
from tests.integration.money.lab import MoneyLab, told, users
from tests.servers.programs import plain_environment


class Result(NamedTuple):
    status: int
    output: str
    errors: str

    @property
    def body(self) -> Any:
        return json.loads(self.output)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, secret=os.urandom(24).hex().encode(), amqp_url="amqp://unused")


@pytest.fixture
def lab(services: Services) -> MoneyLab:
    return MoneyLab(services)


async def command(settings: Settings, *arguments: str) -> Result:
    def run() -> Result:
        done = subprocess.run(
            redpacket(*arguments),
            env=plain_environment() | environment_of(settings),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return await asyncio.to_thread(run)


async def test_recover_says_what_was_lost_and_puts_it_back(
    settings: Settings, lab: MoneyLab
) -> None:
    packet_id = await lab.packet(10)
    had = told(await lab.wins(packet_id, *users(4)))
    await lab.book()
    names = lab.services.keys.packet(packet_id)
    await lab.redis("DEL", names.meta, names.shares, names.claims, names.board)

    async with running_workers(lab.services):
        lost = await command(settings, "recover", "--json")
        fine = await command(settings, "recover", "--json")

    assert lost.status == 1, lost
    assert lost.body["rebuilt"] == [{"packet": str(packet_id), "lost": "the packet is not there"}]
    assert (fine.status, fine.body["compared"], fine.body["rebuilt"]) == (0, 1, [])
    for user, claim in had.items():
        [grab] = await lab.grab(packet_id, user)
        assert grab[1:3] == claim


async def test_reconcile_finds_repairs_and_is_clean_then(settings: Settings, lab: MoneyLab) -> None:
    packet_id = await lab.packet(10)
    await lab.wins(packet_id, "ann")
    await lab.book()
    public_id = lab.services.packet_ids.write(packet_id)
    await lab.run("UPDATE account SET balance_fen = balance_fen + 1 WHERE id = 'user:ann'")

    async with running_workers(lab.services):
        found = await command(settings, "reconcile", "--packet", public_id, "--json")
        shown = await command(settings, "reconcile")
        repaired = await command(settings, "reconcile", "--repair", "--json")
        clean = await command(settings, "reconcile", "--json")
        empty_day = await command(settings, "reconcile", "--day", "2020-02-29", "--json")

    assert found.status == shown.status == repaired.status == 1, (found, shown, repaired)
    assert found.body["kinds"] == {"balance_differs": 1}
    assert "user:ann" in shown.output
    assert "1 packets, 1 differences" in shown.errors
    assert (repaired.body["differences"], repaired.body["left"]) == (1, [])
    assert (clean.status, clean.body["packets"], clean.body["differences"]) == (0, 1, 0)
    assert (empty_day.status, empty_day.body["packets"]) == (0, 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("reconcile", "--day", "2020-02-30"),
        ("reconcile", "--packet", "nonsense"),
        ("dead-letters", "show", "77"),
        ("dead-letters", "replay", "77"),
        ("switch", "off"),
        ("switch", "off", "nonsense"),
        ("switch", "list", "grabs"),
    ],
)
async def test_what_cannot_be_done_is_said_in_a_line(
    settings: Settings, services: Services, arguments: tuple[str, ...]
) -> None:
    result = await command(settings, *arguments)

    assert result.status == 2
    assert result.errors.splitlines()[-1].startswith("redpacket: ")
    assert "Traceback" not in result.errors


async def test_reconcile_does_not_judge_by_a_redis_that_is_not_certified(
    settings: Settings, lab: MoneyLab
) -> None:
    await lab.packet(3)
    await lab.redis("DEL", *lab.services.keys.certificates())

    result = await command(settings, "reconcile")

    assert (result.status, result.errors.splitlines()[-1]) == (2, "redpacket: uncertified")


async def test_a_dead_letter_is_listed_shown_replayed_and_discarded(
    settings: Settings, lab: MoneyLab
) -> None:
    packet_id = await lab.packet(3)
    wins = await lab.wins(packet_id, "ann")
    grab = wins["ann"]
    body = {
        "packet_id": str(packet_id),
        "claimed_at_ms": grab.at_ms,
        "claims": [[grab.seq, grab.amount_fen, "ann"]],
    }
    letters = DeadLetters(lab.services.database, "redpacket.ledger")
    await letters.put([Rejected(json.dumps(body).encode(), "was down"), Rejected(b"\xff", "no")])

    listed = await command(settings, "dead-letters", "list", "--json")
    good, bad = (letter["id"] for letter in listed.body)
    shown = await command(settings, "dead-letters", "show", str(good), "--json")
    replayed = await command(settings, "dead-letters", "replay", str(good), "--json")
    again = await command(settings, "dead-letters", "replay", str(good), "--json")
    refused = await command(settings, "dead-letters", "replay", str(bad), "--json")
    discarded = await command(settings, "dead-letters", "discard", str(bad))
    left = await command(settings, "dead-letters", "list", "--json")

    assert [letter["reason"] for letter in listed.body] == ["was down", "no"]
    assert json.loads(shown.body["body"]) == body
    assert (replayed.status, again.status) == (0, 0)
    assert (refused.status, refused.body["booked"]) == (1, False)
    assert refused.body["refused"][0].startswith("unreadable entry")
    assert (discarded.status, left.body) == (0, [])
    assert await lab.balance("user:ann") == grab.amount_fen
    assert await lab.claims(packet_id) == told(wins)
    await lab.book()
    await lab.balanced()


async def test_a_switch_is_thrown_and_listed(settings: Settings, lab: MoneyLab) -> None:
    packet_id = await lab.packet(3)
    public_id = lab.services.packet_ids.write(packet_id)

    off = await command(settings, "switch", "off", "grabs", "--reason", "演习", "--json")
    await command(settings, "switch", "off", public_id)
    listed = await command(settings, "switch", "list")
    on = await command(settings, "switch", "on", "grabs", "--json")

    assert [(row["name"], row["reason"]) for row in off.body] == [("grabs", "演习")]
    assert f"name=packet:{packet_id}" in listed.output
    assert [row["name"] for row in on.body] == [f"packet:{packet_id}"]

    async def seen() -> bool:
        return lab.services.switches.off == {f"packet:{packet_id}"}

    await eventually(seen, what="the switch in a running process")
