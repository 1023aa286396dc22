"""ids.py: a user id can be written anywhere unescaped."""

import json
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lua.ids import parse_user_id


@given(st.text(ascii_letters + digits + "_-", min_size=1, max_size=64))
def test_user_id_needs_no_escaping(text: str) -> None:
    assert parse_user_id(text) == text
    assert json.dumps(text) == f'"{text}"'
    assert ":" not in text


@pytest.mark.parametrize("text", ["", "x" * 65, "a b", 'a"b', "a:b", "a\n", "é", "٣", "a\\", "{a}"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a user id is"):
        parse_user_id(text)
