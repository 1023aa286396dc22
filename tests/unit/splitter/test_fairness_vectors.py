"""docs/fairness.md, its vectors, the package and a second program agree."""

import json
import subprocess
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from splitter.proof import commitment
from splitter.split import split
from splitter.stream import below, words
from splitter.terms import ImpossibleTerms, Terms

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/fairness.md").read_text("utf-8")
VECTORS_FILE = ROOT / "docs/fairness-vectors.json"
VECTORS: dict[str, list[dict[str, Any]]] = json.loads(VECTORS_FILE.read_text("utf-8"))
ANSWER_WITHIN_SECONDS = 60


@pytest.mark.parametrize("vector", VECTORS["words"])
def test_stream_gives_the_published_words(vector: dict[str, Any]) -> None:
    stream = words(bytes.fromhex(vector["seed"]))
    assert list(islice(stream, len(vector["words"]))) == vector["words"]


@pytest.mark.parametrize("vector", VECTORS["below"])
def test_draws_give_the_published_results(vector: dict[str, Any]) -> None:
    stream = words(bytes.fromhex(vector["seed"]))
    assert [below(bound, stream) for bound in vector["bounds"]] == vector["results"]


@pytest.mark.parametrize("vector", VECTORS["refused"])
def test_published_impossible_terms_are_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(ImpossibleTerms) as caught:
        Terms(**vector["terms"])
    assert caught.value.code == vector["code"]


@pytest.mark.parametrize("vector", VECTORS["splits"], ids=lambda vector: vector["name"])
def test_split_gives_the_published_amounts(vector: dict[str, Any]) -> None:
    terms, seed = Terms(**vector["terms"]), bytes.fromhex(vector["seed"])
    assert terms.canonical().decode() == vector["canonical"]
    assert commitment(seed, terms).hex() == vector["commitment"]
    amounts = split(terms, seed)
    if "amounts" in vector:
        assert amounts == vector["amounts"]
    else:
        assert amounts[:5] == vector["first"]
        assert amounts[-5:] == vector["last"]
    digest = sha256(",".join(map(str, amounts)).encode()).hexdigest()
    assert digest == vector["amounts_sha256"]


def test_a_program_written_from_the_page_gives_every_published_answer() -> None:
    program = Path(__file__).with_name("fairness.mjs")
    finished = subprocess.run(
        ["node", program, VECTORS_FILE],
        capture_output=True,
        timeout=ANSWER_WITHIN_SECONDS,
        check=True,
    )
    answers = json.loads(finished.stdout)
    assert answers.keys() == VECTORS.keys()
    for name, answered in answers.items():
        assert answered == VECTORS[name], name


def test_the_page_lists_every_split_vector() -> None:
    listed = [line for line in PAGE.splitlines() if line.startswith("|") and " `lucky " in line]
    listed += [line for line in PAGE.splitlines() if line.startswith("|") and " `equal " in line]
    assert sorted(listed) == sorted(map(page_row, VECTORS["splits"]))


def page_row(vector: dict[str, Any]) -> str:
    amounts = vector.get("amounts") or [*vector["first"][:3], "…"]
    terms = vector["canonical"].removeprefix("redpacket-terms 1 ")
    shown = ", ".join(map(str, amounts))
    return f"| {vector['name']} | `{terms}` | {shown} | `{vector['amounts_sha256'][:12]}` |"


def test_vectors_cover_every_code_and_every_size() -> None:
    assert len(VECTORS["splits"]) >= 25
    assert {v["terms"]["shares"] for v in VECTORS["splits"]} >= {1, 2, 10, 1_000_000}
    codes = {vector["code"] for vector in VECTORS["refused"]}
    assert len(codes) == 10
    assert all(f"`{code}`" in PAGE for code in codes)
