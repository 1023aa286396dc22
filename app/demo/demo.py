"""Runs the demo against a running dev service: money, a packet, a crowd, the audit, the summary."""

import asyncio
import json
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

import aiohttp
from rich.console import Console

from app.demo.audit import audit
from app.demo.crowd import CrowdOrder, CrowdResult
from app.demo.summary import print_summary
from app.services import Services
from app.store.times import now_ms
from splitter.money import Fen

SHARES: Final = 500
TOTAL_FEN: Final = Fen(88_888)
OPENS_IN_MS: Final = 4_000
REPEAT_EVERY: Final = 4
CROWD_DEADLINE_S: Final = 60.0


class DemoFailed(Exception):
    """The demo could not be carried through."""


async def run_demo(
    services: Services,
    url: str,
    sign: Callable[[str, bool], str],
    users: int,
    console: Console,
) -> bool:
    """Run the demo, print what happened, and tell whether answers, rows and money agree."""
    run = secrets.token_hex(3)
    shares = min(SHARES, max(1, users // 2))
    sender = f"sender-{run}"
    packet = await _create_packet(url, sign, sender, run, shares)
    public_id = str(packet["packet_id"])
    console.print(
        f"🧧 {sender} funds ¥888.88 in {shares} shares, open in {OPENS_IN_MS // 1000} s;"
        f" {users} users line up at {url}/v1/packets/{public_id}/grab"
    )
    order = CrowdOrder(
        url=url,
        packet_id=public_id,
        opens_at_ms=packet["opens_at_ms"],
        tokens={user: sign(user, False) for user in (f"user-{run}-{n}" for n in range(users))},
        repeat_every=REPEAT_EVERY,
    )
    began_s = time.monotonic()
    crowd = await _run_crowd(order, console)
    console.print(f"the crowd is served after {time.monotonic() - began_s:.1f} s; booking the rest")
    packet_id = services.packet_ids.read(public_id)
    result = await audit(services.database, services.live, packet_id, crowd.told)
    print_summary(console, shares, users, TOTAL_FEN, crowd, result)
    console.print(result.line(), highlight=False, soft_wrap=True)
    return result.agrees and not crowd.failures


async def _create_packet(
    url: str, sign: Callable[[str, bool], str], sender: str, run: str, shares: int
) -> Mapping[str, Any]:
    async with aiohttp.ClientSession() as session:

        async def post(path: str, token: str, body: dict[str, Any]) -> Mapping[str, Any]:
            headers = {"authorization": f"Bearer {token}", "idempotency-key": f"demo-{run}"}
            async with session.post(f"{url}{path}", headers=headers, json=body) as response:
                if response.status != 201:
                    raise DemoFailed(f"{path}: {response.status} {await response.text()}")
                answer: Mapping[str, Any] = await response.json()
                return answer

        top_up = {"amount_fen": TOTAL_FEN}
        await post(f"/v1/admin/accounts/{sender}/top-ups", sign("demo-admin", True), top_up)
        terms = {
            "kind": "lucky",
            "total_fen": TOTAL_FEN,
            "shares": shares,
            "greeting": "恭喜发财，大吉大利 · Best wishes",
            "opens_at_ms": now_ms() + OPENS_IN_MS,
        }
        return await post("/v1/packets", sign(sender, False), terms)


async def _run_crowd(order: CrowdOrder, console: Console) -> CrowdResult:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.demo.crowd"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**26,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(CROWD_DEADLINE_S):
            process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
            await process.stdin.drain()
            async for line in process.stdout:
                message = json.loads(line)
                if "result" in message:
                    return CrowdResult(**message["result"])
                console.print(f"  {message['progress']}: {message['done']} of {message['of']}")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    raise DemoFailed("the crowd ended without a result")
