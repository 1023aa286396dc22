"""The `redpacket` command as a person or a cron job runs it."""

import asyncio
import json
import re
import sys
from pathlib import Path

from tests.deployment import Deployment
from tests.servers.ports import free_ports

DEADLINE_S = 60.0


async def redpacket(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Run the command to its end; returns its exit code and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.cli", *arguments),
        env={"PATH": "/usr/bin:/bin", "PYTHONUTF8": "1"} | (environment or {}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(DEADLINE_S):
        output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


def environment_of(deployment: Deployment) -> dict[str, str]:
    settings = deployment.settings
    return {
        "REDPACKET_REDIS_URL": settings.redis_url,
        "REDPACKET_MYSQL_URL": settings.mysql_url,
        "REDPACKET_SECRET": "s" * 32,
        "REDPACKET_JWT_SECRET": settings.tokens.key,
    }


async def test_demo_answers_rows_and_money_agree(tmp_path: Path) -> None:
    [port] = free_ports(1)

    code, output = await redpacket(
        *("dev", "--once", "--users", "300", "--port", str(port), "--data", str(tmp_path))
    )

    last = output.strip().splitlines()[-1]
    assert re.fullmatch(r"answered=150 claims=150 rows=150 lost=0 doubled=0 money_gap_fen=0", last)
    assert code == 0, output


async def test_demo_on_a_taken_port_says_so_and_exits_2(
    tmp_path: Path, deployment: Deployment
) -> None:
    port = str(deployment.settings.port)

    code, output = await redpacket("dev", "--once", "--port", port, "--data", str(tmp_path))

    assert code == 2
    assert "address already in use" in output.lower()
    assert "Traceback" not in output


async def test_signed_token_opens_the_api(deployment: Deployment) -> None:
    code, token = await redpacket("token", "ann", environment=environment_of(deployment))

    answer = await deployment.ask("GET", "/v1/account", authorization=f"Bearer {token.strip()}")

    assert code == 0
    assert answer.body == {"user_id": "ann", "balance_fen": 0}


async def test_verify_tells_a_tampered_claim_from_a_true_packet(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)
    for user in ("ann", "bob"):
        await deployment.grab(packet_id, user)
    await deployment.booked(packet_id, claims=2)
    internal = deployment.services.packet_ids.read(packet_id)
    environment = environment_of(deployment)
    environment["REDPACKET_SECRET"] = deployment.settings.secret.decode()

    true_code, true_report = await redpacket(
        "packet", "verify", packet_id, "--json", environment=environment
    )
    await deployment.services.database.transaction(
        lambda work: work.run(
            "UPDATE claim SET amount_fen = amount_fen + 1 WHERE packet_id = %s AND seq = 2",
            [internal],
        )
    )
    false_code, false_report = await redpacket(
        "packet", "verify", packet_id, "--json", environment=environment
    )

    assert (true_code, json.loads(true_report.splitlines()[-1])["differing"]) == (0, 0)
    assert false_code == 1
    assert json.loads(false_report.splitlines()[-1])["first_differing_seq"] == 2


async def test_missing_settings_are_named_and_exit_2() -> None:
    code, output = await redpacket("serve")

    assert code == 2
    assert "REDPACKET_REDIS_URL is not set" in output


async def test_a_store_that_is_not_there_is_told_without_a_traceback() -> None:
    [port] = free_ports(1)
    environment = {
        "REDPACKET_REDIS_URL": f"redis://127.0.0.1:{port}/0",
        "REDPACKET_MYSQL_URL": f"mysql://user:password@127.0.0.1:{port}/redpacket",
        "REDPACKET_AMQP_URL": f"amqp://127.0.0.1:{port}/",
        "REDPACKET_SECRET": "s" * 32,
        "REDPACKET_JWT_SECRET": "j" * 32,
    }

    for command in (("serve",), ("worker", "relay"), ("db", "migrate")):
        code, output = await redpacket(*command, environment=environment)
        assert code == 2, output
        assert "Traceback" not in output
