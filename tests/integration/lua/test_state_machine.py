"""Any order of loads, openings, grabs, closings and mishaps: the scripts do what the model does."""

import asyncio
import uuid
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis.exceptions import ResponseError

from lua.ids import UserId
from lua.replies import (
    CloseStatus,
    Grab,
    GrabReply,
    GrabStatus,
    Outcome,
    RestoredShare,
    RestoreStatus,
    ResumeStatus,
    RetireStatus,
)
from splitter.money import Fen
from tests.integration.lua.lab import (
    FAR_AHEAD_MS,
    KEYS_OF,
    LONG_AGO_MS,
    PACKET,
    WRONG_TYPE_VALUE,
    Lab,
    LabServer,
    Share,
    fen,
)
from tests.integration.lua.model import Clock, PacketModel

T = TypeVar("T")

PACKET_KEYS: Final = ("meta", "shares", "claims", "board")
LIFE: Final = ("load", "open", "grab", "close")  # what a packet goes through
CROWD: Final = [f"u{number}" for number in range(9)]
# When grabs begin and end, so that it is before, during or after that now.
TIMES: Final[dict[Clock, tuple[int, int]]] = {
    "before": (FAR_AHEAD_MS - 1, FAR_AHEAD_MS),
    "during": (LONG_AGO_MS, FAR_AHEAD_MS),
    "after": (LONG_AGO_MS, LONG_AGO_MS + 1),
}
# Derandomised: every run tries the same steps, and a failure prints those that lead to it.
BOUNDED: Final = settings(
    phases=[Phase.generate],
    max_examples=40,
    stateful_step_count=30,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)

clocks: st.SearchStrategy[Clock] = st.sampled_from(["before", "during", "after"])
crowds = st.lists(st.sampled_from(CROWD), min_size=1, max_size=8)


class PacketMachine(RuleBasedStateMachine):
    """One packet on a real server, next to its model."""

    def __init__(self, lab: Lab, runner: asyncio.Runner) -> None:
        super().__init__()
        self.lab = lab
        self.runner = runner
        self.model = PacketModel([])
        self.first_answers: dict[str, Grab] = {}
        self.wait(lab.move_to(f"rp-{uuid.uuid4().hex[:12]}"))

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    @initialize(
        amounts=st.lists(st.integers(1, 4), min_size=1, max_size=9), opened=st.integers(0, 3)
    )
    def new_packet(self, amounts: list[int], opened: int) -> None:
        self.model = PacketModel(amounts)
        if opened > 0:
            self.load(0, len(amounts))
            self.open_at("during")

    @rule(size=st.integers(1, 4))
    def load_next_chunk(self, size: int) -> None:
        if self.model.loaded < len(self.model.amounts):
            self.load(self.model.loaded, size)

    @rule(offset=st.integers(0, 8), size=st.integers(1, 9))
    def load_some_chunk(self, offset: int, size: int) -> None:
        if offset < len(self.model.amounts):
            self.load(offset, size)

    @rule(clock=clocks)
    def open_at(self, clock: Clock) -> None:
        for more_shares, more_fen in [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (0, 0)]:
            self.open(more_shares, more_fen, clock)

    @rule(users=crowds)
    def grab(self, users: list[str]) -> None:
        reply = self.grab_now(users)
        status, expected = self.model.grab(users)
        assert reply.status is status
        assert len(reply.grabs) == len(expected)
        for user, grab, (outcome, share) in zip(users, reply.grabs, expected, strict=False):
            assert grab.outcome == outcome
            if share is not None:
                assert grab[1:] == (*share, self.first_answers[user].at_ms)
            else:
                opens_at_ms = TIMES["before"][0] if outcome is Outcome.NOT_OPEN_YET else 0
                assert grab[1:] == (0, 0, opens_at_ms)

    @rule(users=crowds)
    def crowd_taps_twice_in_one_call(self, users: list[str]) -> None:
        self.grab(users * 2)

    @precondition(lambda self: self.model.was_opened)
    @rule(clock=st.sampled_from(["before", "after"]), users=crowds)
    def grab_at_the_wrong_time(self, clock: Clock, users: list[str]) -> None:
        self.time_passes(clock)
        self.grab(users)
        self.time_passes("during")

    @precondition(lambda self: self.model.claims)
    @rule()
    def everybody_who_won_asks_again(self) -> None:
        before = self.wait(self.lab.snapshot())
        reply = self.grab_now(list(self.first_answers))
        repeats = [grab._replace(outcome=2) for grab in self.first_answers.values()]
        assert reply.grabs == repeats
        assert self.wait(self.lab.snapshot()) == before

    @rule()
    def close(self) -> None:
        assert self.wait(self.lab.scripts.close(PACKET)) == self.model.close()

    @precondition(lambda self: self.model.was_opened)
    @rule(clock=clocks)
    def time_passes(self, clock: Clock) -> None:
        opens_at_ms, expires_at_ms = TIMES[clock]
        self.wait(self.lab.set_meta(opens_at_ms=opens_at_ms, expires_at_ms=expires_at_ms))
        self.model.clock = clock

    @rule()
    def scripts_are_flushed(self) -> None:
        self.wait(self.lab.run("SCRIPT FLUSH"))
        assert self.grab_now(CROWD).status is GrabStatus.UNCERTIFIED
        self.wait(self.lab.certify())

    @precondition(lambda self: self.model.was_opened)
    @rule(lost=st.sets(st.sampled_from(PACKET_KEYS)), chunk=st.integers(1, 9), users=crowds)
    def data_is_lost_and_rebuilt(self, lost: set[str], chunk: int, users: list[str]) -> None:
        for key in lost:
            self.wait(self.lab.run("DEL", self.lab.of()._asdict()[key]))
        self.wait(self.lab.scripts.suspend(PACKET, "first"))
        self.restore("first", chunk)
        self.wait(self.lab.scripts.suspend(PACKET, "second"))
        assert self.grab_now(users).status is GrabStatus.LOADING
        assert self.resume("first") is ResumeStatus.SUPERSEDED
        assert self.resume("second") is ResumeStatus.MISMATCH
        self.restore("second", chunk)
        assert self.grab_now(users).status is GrabStatus.LOADING
        assert self.resume("second") is ResumeStatus.OK
        assert self.resume("second") is ResumeStatus.SUPERSEDED

    @precondition(lambda self: self.model.state == "closed")
    @rule()
    def retire(self) -> None:
        retired = self.wait(self.lab.scripts.retire(PACKET, FAR_AHEAD_MS))
        assert retired.status is RetireStatus.OK

    @rule(verb=st.sampled_from(LIFE), users=crowds)
    def each_key_is_of_the_wrong_type_for_a_call(self, verb: str, users: list[str]) -> None:
        for key in (*PACKET_KEYS, "outbox"):
            name = self.lab.of()._asdict()[key]
            kept = self.wait(self.lab.dump(name))
            self.wait(self.lab.run("SET", name, WRONG_TYPE_VALUE))
            if key in self.keys_read_by(verb):
                self.fails_and_changes_nothing(verb, users)
            self.wait(self.lab.restore(name, kept))

    @precondition(lambda self: self.model.was_opened)
    @rule(users=crowds)
    def shares_or_claims_are_lost_for_a_call(self, users: list[str]) -> None:
        for name in (self.lab.of().shares, self.lab.of().claims):
            kept = self.wait(self.lab.dump(name))
            if kept is None:
                continue
            self.wait(self.lab.run("DEL", name))
            before = self.wait(self.lab.snapshot())
            reply = self.grab_now(users)
            assert (reply.status, reply.grabs) == (GrabStatus.INCONSISTENT, [])
            assert self.wait(self.lab.scripts.close(PACKET)).status is CloseStatus.INCONSISTENT
            assert self.wait(self.lab.snapshot()) == before
            self.wait(self.lab.restore(name, kept))

    @invariant()
    def redis_holds_what_the_model_holds(self) -> None:
        held = self.wait(self.lab.look())
        assert held.state == self.model.state
        assert held.remaining == self.model.waiting
        assert {user: claim[1:3] for user, claim in held.claims.items()} == self.model.claims
        assert held.board == self.model.board
        assert held.messages == [
            {
                "packet_id": str(PACKET),
                "claimed_at_ms": self.first_answers[won[0][0]].at_ms,
                "claims": [[share.seq, share.amount_fen, user] for user, share in won],
            }
            for won in self.model.messages
        ]

    @invariant()
    def books_balance_without_a_model(self) -> None:
        """Every share and fen is waiting or claimed, and all that tells of claims agrees."""
        held = self.wait(self.lab.look())
        claims = {user: (seq, fen) for user, (_, seq, fen, _) in held.claims.items()}
        shares = sorted([*claims.values(), *held.remaining])
        assert shares == list(enumerate(self.model.amounts[: self.model.loaded], 1))
        answered = {user: grab[1:] for user, grab in self.first_answers.items()}
        assert answered == {user: claim[1:] for user, claim in held.claims.items()}
        told = [claim for message in held.messages for claim in message["claims"]]
        assert sorted(told) == sorted([seq, fen, user] for user, (seq, fen) in claims.items())
        best_first = sorted(claims, key=lambda user: (-claims[user][1], claims[user][0]))
        assert held.board == best_first

    def load(self, offset: int, size: int) -> None:
        amounts = self.model.amounts
        chunk = fen(amounts[offset : offset + size])
        loaded = self.wait(self.lab.scripts.load(PACKET, len(amounts), offset, chunk))
        assert loaded == self.model.load(offset, len(chunk))

    def open(self, more_shares: int, more_fen: int, clock: Clock) -> None:
        shares = len(self.model.amounts) + more_shares
        total_fen = sum(self.model.amounts) + more_fen
        opens_at_ms, expires_at_ms = TIMES[clock]
        opened = self.wait(
            self.lab.scripts.open(
                PACKET,
                shares=shares,
                total_fen=Fen(total_fen),
                opens_at_ms=opens_at_ms,
                expires_at_ms=expires_at_ms,
            )
        )
        assert opened == self.model.open(shares, total_fen, clock)

    def grab_now(self, users: list[str]) -> GrabReply:
        reply = self.wait(self.lab.try_grab(*users))
        for user, grab in zip(users, reply.grabs, strict=False):
            if grab.outcome == Outcome.GRABBED:
                assert user not in self.first_answers
                assert grab.at_ms == reply.now_ms
                self.first_answers[user] = grab
        return reply

    def keys_read_by(self, verb: str) -> list[str]:
        """The keys whose type a verb checks, in the state the packet is in."""
        if verb == "grab" and not self.model.was_opened:
            return ["meta"]
        return [key for key in KEYS_OF[verb] if key != "certificate"]

    def restore(self, rebuild: str, size: int) -> None:
        """Put the packet back as the model holds it, every chunk twice."""
        model = self.model
        owners = {share: user for user, share in model.claims.items()}
        shares = []
        for share in [Share(seq, amount) for seq, amount in enumerate(model.amounts, 1)]:
            user = owners.get(share)
            at_ms = self.first_answers[user].at_ms if user else 0
            shares.append(RestoredShare(*share, at_ms, UserId(user) if user else None))
        for offset in range(0, len(shares), size):
            chunk = shares[offset : offset + size]
            for _ in range(2):
                call = self.lab.scripts.restore(PACKET, rebuild, len(shares), offset, chunk)
                assert self.wait(call).status is RestoreStatus.OK

    def resume(self, rebuild: str) -> ResumeStatus:
        opens_at_ms, expires_at_ms = TIMES[self.model.clock]
        call = self.lab.scripts.resume(
            PACKET,
            rebuild,
            shares=len(self.model.amounts),
            total_fen=Fen(sum(self.model.amounts)),
            opens_at_ms=opens_at_ms,
            expires_at_ms=expires_at_ms,
            closed=self.model.state == "closed",
        )
        return self.wait(call).status

    def do(self, verb: str, users: list[str]) -> None:
        if verb == "load":
            self.load(0, len(self.model.amounts))
        elif verb == "open":
            self.open(0, 0, "during")
        elif verb == "grab":
            self.grab(users)
        else:
            self.close()

    def fails_and_changes_nothing(self, verb: str, users: list[str]) -> None:
        before = self.wait(self.lab.snapshot())
        # `do` asks the scripts first and the model after, so the model does not move either.
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            self.do(verb, users)
        assert self.wait(self.lab.snapshot()) == before


def test_scripts_do_what_the_model_does_in_any_order(place: LabServer) -> None:
    with asyncio.Runner() as runner:
        lab = runner.run(Lab.enter(place, "rp-unused"))

        class Machine(PacketMachine):
            def __init__(self) -> None:
                super().__init__(lab, runner)

        try:
            run_state_machine_as_test(Machine, settings=BOUNDED)
        finally:
            runner.run(lab.leave())
