"""A switch that an operator throws is obeyed by every process within a second."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from app.config import Settings
from app.services import Services
from tests.deployment import Answer, Deployment, MemoryDeadLetters
from tests.durability.fleet import start_all
from tests.durability.program import Program, environment_of, redpacket
from tests.eventually import eventually
from tests.servers.ports import free_ports
from tests.servers.programs import plain_environment

WITHIN_S = 1.0


@pytest.fixture
async def processes(
    settings: Settings, services: Services, tmp_path: Path
) -> AsyncIterator[list[Deployment]]:
    """Two API processes on one set of stores."""
    all_settings = [replace(settings, port=port) for port in free_ports(2)]
    programs = []
    for own in all_settings:
        directory = tmp_path / str(own.port)
        directory.mkdir()
        programs.append(Program(directory, ("serve",), environment_of(own), own.port))
    with programs[0], programs[1]:
        await start_all(programs)
        async with aiohttp.ClientSession() as session:
            yield [
                Deployment(own, services, program.url, session, MemoryDeadLetters())
                for own, program in zip(all_settings, programs, strict=True)
            ]


async def throw(settings: Settings, *arguments: str) -> float:
    """Run `redpacket switch` to its end; returns when it ended."""
    process = await asyncio.create_subprocess_exec(
        *redpacket("switch", *arguments),
        env=plain_environment() | environment_of(settings),
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await process.wait() == 0
    return time.monotonic()


async def all_answer(processes: list[Deployment], packet_id: str, *, is_off: bool) -> float:
    """Grab from every process until all of them answer so; returns when the last one began to."""
    users = itertools.count()

    async def answers(process: Deployment) -> bool:
        answer = await process.grab(packet_id, f"{is_off}-{next(users)}")
        return answer.status == (503 if is_off else 200) and (not is_off or is_refusal(answer))

    for process in processes:
        await eventually(partial(answers, process), what=f"off: {is_off}")
    return time.monotonic()


def is_refusal(answer: Answer) -> bool:
    return (answer.code, answer.headers["retry-after"]) == ("switched_off", "1")


async def test_every_process_obeys_a_switch_within_a_second(
    settings: Settings, processes: list[Deployment]
) -> None:
    one, other = [await processes[0].create("sender", 100_000, 1000) for _ in range(2)]

    for name in ("grabs", one):
        thrown_s = await throw(settings, "off", name, "--reason", "演习")
        refused_s = await all_answer(processes, one, is_off=True)
        assert refused_s - thrown_s < WITHIN_S
        again = [await process.grab(other, f"{name}-bystander") for process in processes]
        assert {answer.status for answer in again} == ({503} if name == "grabs" else {200})

        thrown_s = await throw(settings, "on", name)
        taken_s = await all_answer(processes, one, is_off=False)
        assert taken_s - thrown_s < WITHIN_S


async def test_every_process_refuses_creations_that_are_switched_off(
    settings: Settings, processes: list[Deployment]
) -> None:
    await processes[0].top_up("sender", 100_000)
    body = {"total_fen": 100, "shares": 2, "kind": "lucky"}

    async def create(process: Deployment, key: str) -> Answer:
        return await process.ask("POST", "/v1/packets", user="sender", body=body, key=key)

    keys = itertools.count()

    async def answers(process: Deployment, status: int) -> bool:
        answer = await create(process, f"{status}-{next(keys)}")
        return answer.status == status and (status == 201 or is_refusal(answer))

    thrown_s = await throw(settings, "off", "creations")
    for process in processes:
        await eventually(partial(answers, process, 503), what="a refused creation")
    assert time.monotonic() - thrown_s < WITHIN_S

    await throw(settings, "on", "creations")
    for process in processes:
        await eventually(partial(answers, process, 201), what="a creation")
