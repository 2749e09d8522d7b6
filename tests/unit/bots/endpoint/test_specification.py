"""The file of an endpoint: what is read, and what is refused with which words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from refusals import refusing

from refaug.bots.endpoint.client import retry_after_s
from refaug.bots.endpoint.specification import endpoint_of, read_endpoint
from refaug.bots.endpoint.spending import Budget, Price
from refaug.core.errors import BadInput, NotFound

PLAIN = {"url": "http://127.0.0.1:8000/v1/", "model": "small"}


def test_toml_and_json_are_the_same(tmp_path: Path) -> None:
    fields = {
        **PLAIN,
        "key_env": "JUDGE_KEY",
        "concurrency": 4,
        "omit": ["seed"],
        "parameters": {"top_p": 0.5},
        "price": {"input": 1, "output": 2.5},
        "budget": {"tokens": 1000, "money": 3},
    }
    (tmp_path / "a.json").write_text(json.dumps(fields))
    (tmp_path / "a.toml").write_text(
        'url = "http://127.0.0.1:8000/v1/"\nmodel = "small"\nkey_env = "JUDGE_KEY"\nconcurrency = 4\nomit = ["seed"]\n'
        "[parameters]\ntop_p = 0.5\n[price]\ninput = 1\noutput = 2.5\n[budget]\ntokens = 1000\nmoney = 3\n"
    )
    endpoint = read_endpoint(tmp_path / "a.toml")
    assert endpoint == read_endpoint(tmp_path / "a.json")
    assert endpoint.completions_url == "http://127.0.0.1:8000/v1/chat/completions"
    assert (endpoint.name, endpoint.price, endpoint.budget) == (
        "a",
        Price(input=1, output=2.5),
        Budget(tokens=1000, money=3),
    )


def test_the_query_of_azure_stays_at_the_end() -> None:
    endpoint = endpoint_of({**PLAIN, "url": "https://x.example.com/d?api-version=1"}, where="f", name="f")
    assert endpoint.completions_url == "https://x.example.com/d/chat/completions?api-version=1"


SECRET = "sk-abcdefghijklmnop1234"


@pytest.mark.parametrize(
    "url",
    [
        f"https://user:{SECRET}@api.example.com/v1",
        f"https://{SECRET}@api.example.com/v1",
        f"https://api.example.com/v1?api_key={SECRET}",
        f"https://api.example.com/{SECRET}/v1",
        f"https://api.example.com/v1#{SECRET}",
    ],
)
def test_a_key_in_the_address_is_refused_and_not_repeated(url: str) -> None:
    with refusing(BadInput) as refused:
        endpoint_of({**PLAIN, "url": url}, where="judge.toml", name="judge")
    assert SECRET not in str(refused.value)
    assert "key_env" in refused.value.remedy


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"url": None}, "url: a text"),
        ({"url": "ftp://x/v1"}, "not an address of http"),
        ({"url": "http://x:99999/v1"}, "not an address"),
        ({"url": "http://x/v1/chat/completions"}, "the base is enough"),
        ({"model": ""}, "model: a text"),
        ({"api_key": SECRET}, "api_key"),
        ({"retries": 3}, "retries: there is no such field"),
        ({"key_env": SECRET}, "key_env"),
        ({"concurrency": 0}, "concurrency: 0"),
        ({"concurrency": 2.5}, "2.5"),
        ({"timeout_s": "long"}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"omit": ["model"]}, "omit: a list"),
        ({"parameters": {"seed": 3}}, "parameters.seed"),
        ({"parameters": {"api_key": "abc"}}, "parameters.api_key"),
        ({"parameters": {"extra_body": {"Authorization": "x"}}}, "parameters.extra_body.Authorization"),
        ({"parameters": {"headers": [{"h": f"Bearer {SECRET}"}]}}, "parameters.headers.0.h"),
        ({"budget": {"money": 3}}, "budget.money"),
        ({"budget": {"tokens": 9}, "omit": ["max_tokens"]}, "budget: no answer has a greatest length"),
        ({"price": 3}, "price: a table"),
    ],
)
def test_a_wrong_field_is_named(fields: dict, words: str) -> None:
    table = {key: content for key, content in {**PLAIN, **fields}.items() if content is not None}
    with refusing(BadInput, words) as refused:
        endpoint_of(table, where="judge.toml", name="judge")
    assert SECRET not in str(refused.value)


def test_parameters_whose_names_only_sound_like_keys_are_sent() -> None:
    parameters = {"stop_token_ids": [1], "min_tokens": 2, "prompt_cache_key": "chat", "stop": ["key"], "user": "sk-7"}
    assert endpoint_of({**PLAIN, "parameters": parameters}, where="f", name="f").parameters == parameters


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_endpoint(tmp_path / "gone.toml")
    (tmp_path / "bad.toml").write_text("url = ")
    with refusing(BadInput):
        read_endpoint(tmp_path / "bad.toml")


def test_the_hash_is_that_of_what_decides_answers() -> None:
    first = endpoint_of(PLAIN, where="f", name="f").content_hash
    assert endpoint_of({**PLAIN, "concurrency": 3, "budget": {"tokens": 9}}, where="f", name="g").content_hash == first
    assert endpoint_of({**PLAIN, "parameters": {"top_p": 0.5}}, where="f", name="f").content_hash != first


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0), ("0.5", 0.5), ("-3", 0.0), ("soon", None), ("", None), (None, None), ("inf", None),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30.0), ("Wed, 21 Oct 2015 07:27:00 GMT", 0.0),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(text: str | None, seconds: float | None) -> None:
    from datetime import UTC, datetime  # noqa: PLC0415

    assert retry_after_s(text, lambda: datetime(2015, 10, 21, 7, 28, tzinfo=UTC)) == seconds
