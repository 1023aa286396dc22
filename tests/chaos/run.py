"""One chaos run: load, faults, an end to the faults, and the reckoning."""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp

from app.exit_codes import COULD_NOT_RUN
from app.services import Services, open_services
from tests.chaos.draining import DEAD_LETTER_QUEUES, drain, left_in_queues
from tests.chaos.load import REQUEST_TIMEOUT_S, Crowd
from tests.chaos.reckoning import Reckoning, reckon
from tests.chaos.report import Report
from tests.chaos.senders import Senders
from tests.chaos.stand import Stand, running_stand
from tests.chaos.told import Told
from tests.chaos.troublemaker import AT_ONCE, Journal, make_trouble
from tests.durability.program import redpacket
from tests.servers.programs import plain_environment

GRABS_A_SECOND: Final = 700.0
QUIET_S: Final = 2.0  # of load without faults, before the first one and after the last one
FAULTS_END_WITHIN_S: Final = 120.0
ANSWERED_WITHIN_S: Final = 60.0  # everybody who asked, once all faults are over
ALARMS_SHOWN: Final = 5  # different ones
VARYING: Final = re.compile(r"\d+")


async def run_chaos(seed: int, minutes: float, directory: Path) -> Report:
    report = Report(seed, minutes)
    async with running_stand(directory, Random(f"{seed}:processes")) as stand:
        report.processes = list(stand.members)
        async with open_services(stand.settings) as services:
            told = Told(directory / "told.sqlite3")
            try:
                await _load_and_reckon(stand, services, told, report)
            finally:
                told.close()
        report.refused_starts = stand.refused_starts
        report.failures += stand.troubles
    _report_alarms(stand, report)
    return report


async def _load_and_reckon(stand: Stand, services: Services, told: Told, report: Report) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        crowd = Crowd(
            stand.api_urls,
            services.tickets,
            told,
            Random(f"{report.seed}:crowd"),
            GRABS_A_SECOND,
            session,
        )
        senders = Senders(
            crowd,
            session,
            services.packet_ids,
            stand.settings.tokens,
            Random(f"{report.seed}:senders"),
        )
        await senders.top_up()
        await _under_load(stand, crowd, senders, report)
    _report_load(crowd, senders, report)
    try:
        report.drained_after_s = await drain(stand, services, senders.created)
    except TimeoutError as error:
        report.failures.append(str(error))
    # Nobody books any more while the books are compared, and no consumer holds a message.
    await asyncio.gather(*(stand.end_in_order(member) for member in stand.members.values()))
    left = await left_in_queues(stand)
    report.dead_letters = sum(left[name] for name in left if name in DEAD_LETTER_QUEUES)
    report.failures += [f"{count} messages left in {name}" for name, count in left.items() if count]
    await _report_set_aside(services, report)
    _report_reckoning(await reckon(services, told, senders.created), report)
    report.failures += await reconcile_is_clean(stand)


async def _report_set_aside(services: Services, report: Report) -> None:
    """Dead letters and conflicts: no fault that is injected here may lead to one."""
    letters = await services.database.rows("SELECT reason, body FROM dead_letter")
    conflicts = await services.database.rows("SELECT packet_id, seq, reason FROM conflict")
    report.dead_letters += len(letters)
    report.conflicts = len(conflicts)
    report.failures += [f"dead letter: {letter}" for letter in letters[:ALARMS_SHOWN]]
    report.failures += [f"conflict: {conflict}" for conflict in conflicts[:ALARMS_SHOWN]]


async def reconcile_is_clean(stand: Stand) -> list[str]:
    """What `redpacket reconcile` finds amiss, one text a difference."""
    process = await asyncio.create_subprocess_exec(
        *redpacket("reconcile", "--json"),
        env=plain_environment() | stand.environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, errors = await process.communicate()
    if process.returncode == COULD_NOT_RUN:
        return [f"reconcile could not run: {errors.decode()[-1000:]}"]
    return [f"reconcile: {finding}" for finding in json.loads(printed)["findings"]]


async def _under_load(stand: Stand, crowd: Crowd, senders: Senders, report: Report) -> None:
    journal = Journal()
    crowd.on_grabbed = journal.grabbed
    no_more_load = asyncio.Event()
    began_s = time.monotonic()
    load = [
        asyncio.create_task(crowd.grab_until(no_more_load)),
        asyncio.create_task(senders.send_until(no_more_load)),
    ]
    supervisor = asyncio.create_task(stand.supervise())
    try:
        await asyncio.sleep(QUIET_S)
        await _trouble_for(60 * report.minutes, stand, journal, report)
        await asyncio.sleep(QUIET_S)
        report.answered_a_second = crowd.figures.answered / (time.monotonic() - began_s)
        no_more_load.set()
        await _within(ANSWERED_WITHIN_S, asyncio.gather(*load), "everybody answered", report)
    finally:
        for task in (*load, supervisor):
            task.cancel()
        await asyncio.gather(*load, supervisor, return_exceptions=True)
    report.faults = dict(sorted(journal.injected.items()))
    report.worst_recovery_s = journal.worst_recovery_s
    report.worst_recovery_after = journal.worst_recovery_after


async def _trouble_for(seconds: float, stand: Stand, journal: Journal, report: Report) -> None:
    """Make trouble, and see to it that afterwards everything runs and is connected again."""
    stop = asyncio.Event()
    makers = [
        asyncio.create_task(make_trouble(stand, f"{report.seed}:{number}", journal, stop))
        for number in range(AT_ONCE)
    ]
    await asyncio.wait(makers, timeout=seconds)
    stop.set()
    await _within(FAULTS_END_WITHIN_S, asyncio.gather(*makers), "all faults over", report)
    for name in stand.process_names:
        async with stand.holder(name):
            await stand.make_run(stand.process(name))


async def _within(
    seconds: float,
    work: "asyncio.Future[Any] | Coroutine[Any, Any, Any]",
    what: str,
    report: Report,
) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        report.failures.append(f"not within {seconds} s: {what}")


def _report_load(crowd: Crowd, senders: Senders, report: Report) -> None:
    figures = crowd.figures
    report.packets = len(senders.created)
    report.answered_grabs = figures.answered
    report.outcomes = dict(figures.outcomes)
    report.troubles = dict(figures.troubles)
    report.longest_silence_s = figures.longest_silence_s
    report.slowest_answer_s = figures.slowest_answer_s
    report.longest_wait_s = figures.longest_wait_s
    report.slowest_creation_s = senders.slowest_creation_s
    report.failures += [f"{count} times: {what}" for what, count in figures.wrong.items()]


def _report_reckoning(found: Reckoning, report: Report) -> None:
    report.told, report.claims, report.rows = found.told, found.claims, found.rows
    report.lost, report.doubled = found.lost, found.doubled
    report.fen_adrift = found.fen_adrift
    report.conflicts += found.conflicts
    report.failures += found.failures


def _report_alarms(stand: Stand, report: Report) -> None:
    members = [*stand.members.values(), *stand.visitors]
    # Visitors of a kind write to one log after the other.
    logs = {member.log: member for member in members}
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for member in logs.values():
        for alarm in member.alarms():
            alike = VARYING.sub("#", alarm.partition("\n")[0].partition(" ERROR ")[2])
            counts[alike] += 1
            examples.setdefault(alike, alarm)
    report.unforeseen_exceptions = counts.total()
    report.failures += [
        f"{count} alarms like this: {examples[alike]}"
        for alike, count in counts.most_common(ALARMS_SHOWN)
    ]
