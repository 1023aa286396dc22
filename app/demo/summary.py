"""Tells a person how the demo went."""

import statistics
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from app.demo.audit import Audit
from app.demo.crowd import CrowdResult
from lua.ids import UserId
from splitter.money import Fen, format_yuan

_WORDS = {
    "grabbed": "got a share 抢到了",
    "repeated": "asked again, same share 再次查看",
    "sold_out": "came too late 手慢了",
    "not_open_yet": "came too early 还没开始",
    "expired": "came after the end 已过期",
    "closed": "found it closed 已关闭",
}
_WINNERS = 5
_PERCENTILES = {"p50": 500, "p90": 900, "p99": 990, "p99.9": 999}  # in per mille


def print_summary(
    console: Console, shares: int, users: int, total_fen: Fen, crowd: CrowdResult, audit: Audit
) -> None:
    console.print()
    console.print(_winners(total_fen, audit.booked, shares))
    console.print(_funnel(users, crowd))
    console.print(_latency(crowd.latencies_ms))
    for failure in crowd.failures[:_WINNERS]:
        console.print(f"[red]no answer: {failure}[/red]")


def _winners(total_fen: Fen, booked: Mapping[UserId, tuple[int, int]], shares: int) -> Table:
    title = f"¥{format_yuan(total_fen)} in {shares} shares: who got most 手气榜"
    table = Table(title=title, title_justify="left")
    table.add_column("", justify="right")
    table.add_column("user")
    table.add_column("amount", justify="right")
    table.add_column("share", justify="right")
    ranked = sorted(booked.items(), key=lambda item: (-item[1][1], item[1][0]))
    for rank, (user, (seq, amount_fen)) in enumerate(ranked[:_WINNERS], start=1):
        crown = "👑" if rank == 1 else str(rank)
        table.add_row(crown, user, f"¥{format_yuan(Fen(amount_fen))}", f"#{seq}")
    if len(ranked) > _WINNERS:
        user, (seq, amount_fen) = ranked[-1]
        table.add_row(str(len(ranked)), user, f"¥{format_yuan(Fen(amount_fen))}", f"#{seq}")
    return table


def _funnel(users: int, crowd: CrowdResult) -> Table:
    answers = sum(crowd.outcomes.values())
    table = Table(title=f"{users} users, {answers} answers 漏斗", title_justify="left")
    table.add_column("answer")
    table.add_column("times", justify="right")
    table.add_column("")
    for outcome, count in sorted(crowd.outcomes.items(), key=lambda item: -item[1]):
        bar = "█" * max(1, round(40 * count / max(answers, 1)))
        table.add_row(_WORDS.get(outcome, outcome), str(count), bar)
    return table


def _latency(latencies_ms: Sequence[float]) -> Table:
    table = Table(title="time to answer, as the crowd saw it 响应时间", title_justify="left")
    per_mille = statistics.quantiles(latencies_ms, n=1000)
    for name in _PERCENTILES:
        table.add_column(name, justify="right")
    table.add_row(*(f"{per_mille[at - 1]:.1f} ms" for at in _PERCENTILES.values()))
    return table
