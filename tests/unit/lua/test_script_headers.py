"""The header of a script says what its body does, and drifts from it nowhere."""

import re

import pytest

from lua import replies, scripts
from lua.keys import PacketKeys
from lua.script import Script, script_names
from tests.unit.lua.script_text import HEADER_FIELDS, ScriptText, read_script


@pytest.fixture(params=script_names())
def script(request: pytest.FixtureRequest) -> ScriptText:
    return read_script(request.param)


def test_there_are_scripts_to_check() -> None:
    assert {"load", "open", "grab", "close"} <= set(script_names())


def test_script_is_for_engines_that_check_flags_and_sets_none(script: ScriptText) -> None:
    # Flags would allow what must be refused: writing without memory, reaching across slots.
    assert script.first_line == "#!lua"


def test_header_has_purpose_keys_argv_and_returns(script: ScriptText) -> None:
    assert [field for field, _ in script.header] == HEADER_FIELDS
    assert all(text for _, text in script.header)


def test_header_names_exactly_the_keys_of_the_body_in_order(script: ScriptText) -> None:
    declared = script.declared("KEYS")
    locals_of_keys = script.locals_of("KEYS")
    assert locals_of_keys == {at: f"{name}_key" for at, name in enumerate(declared, 1)}
    assert len(re.findall(r"\bKEYS\b", script.body)) == len(declared)


def test_keys_are_those_of_a_packet_in_their_order(script: ScriptText) -> None:
    declared = script.declared("KEYS")
    assert declared == [name for name in PacketKeys._fields if name in declared]


def test_exactly_what_grabs_depend_on_is_certified(script: ScriptText) -> None:
    checks = "if redis.call('GET', certificate_key) ~= '@certificate@' then return {UNCERTIFIED"
    is_certified = script.name in {"load", "open", "grab", "close"}
    assert (checks in script.body) is is_certified
    assert Script(script.name).is_certified is is_certified
    assert ("certificate" in script.declared("KEYS")) is is_certified


def test_header_names_exactly_the_fixed_arguments_of_the_body(script: ScriptText) -> None:
    used = {int(number) for number in re.findall(r"ARGV\[(\d+)\]", script.body)}
    assert used == set(range(1, len(script.fixed_arguments) + 1))
    called = script.pairs_of_argv() | script.locals_of("ARGV")
    assert called == dict(enumerate(script.fixed_arguments, 1))


def test_header_names_further_arguments_where_the_body_takes_them(script: ScriptText) -> None:
    fixed = len(script.fixed_arguments)
    counts = re.findall(r"#ARGV - (\d+)", script.body)
    others = re.findall(r"ARGV\[i \+ (\d+)\]|unpack\(ARGV, (\d+)\)", script.body)
    if script.takes_more_arguments:
        assert counts == [str(fixed)]
        assert others
        assert {int(plus or int(start or 0) - 1) for plus, start in others} == {fixed}
    mentions = len(re.findall(r"\bARGV\b", script.body))
    numbered = len(re.findall(r"ARGV\[\d+\]", script.body))
    more = len(counts) + len(others) if script.takes_more_arguments else 0
    assert mentions == numbered + more


def test_script_builds_no_key_name(script: ScriptText) -> None:
    commands = re.findall(r"redis\.call\('([A-Z]+)'", script.body)
    keyed = re.findall(r"redis\.call\('[A-Z]+', (\w+)_key[,)]", script.body)
    assert len(commands) == len(re.findall(r"redis\.", script.body))
    assert len(keyed) == len(commands) - commands.count("TIME")
    assert set(keyed) == set(script.declared("KEYS"))
    # Every other mention of a key's local is the one where it is declared.
    mentions = re.findall(r"\w+_key\b", script.body)
    assert len(mentions) == len(keyed) + len(script.declared("KEYS"))


def test_statuses_are_those_of_the_enum(script: ScriptText) -> None:
    status = getattr(replies, f"{script.name.capitalize()}Status")
    assert script.constants()[0] == {member.name: member.value for member in status}


def test_outcomes_of_a_grab_are_those_of_the_enum() -> None:
    [_, outcomes] = read_script("grab").constants()
    assert outcomes == {member.name: member.value for member in replies.Outcome}


def test_highest_score_is_the_one_python_knows() -> None:
    assert "local MAX_SCORE = 2 ^ 53 - 1\n" in read_script("load").body
    assert scripts.MAX_BOARD_SCORE == 2**53 - 1
