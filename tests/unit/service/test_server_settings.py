from __future__ import annotations

import pytest
from refusals import refusing

from refaug.core.errors import Usage
from refaug.service.server_settings import ServeSettings


@pytest.mark.parametrize("text", ["refaug", "http://example.org/x", "/with space", "//", "/", "/a?b", "/a//b"])
def test_a_root_path_is_a_path_that_begins_with_a_slash(text: str) -> None:
    with pytest.raises(Usage) as refused:
        ServeSettings.from_env({"REFAUG_ROOT_PATH": text})
    assert refused.value.message == f"REFAUG_ROOT_PATH is {text!r}"
    assert refused.value.remedy == "a path that begins with a slash, such as /refaug"


@pytest.mark.parametrize("text", ["/refaug", "/tools/refaug/", "/~team/v1.0_a-b"])
def test_a_path_with_or_without_a_last_slash_will_do(text: str) -> None:
    assert ServeSettings.from_env({"REFAUG_ROOT_PATH": text}).root_path == text


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("proxy.example.org", "proxy.example.org"),
        ("127.0.0.1,*", "*"),
        ("10.0.0.1/8", "10.0.0.1/8"),
        ("127.0.0.1,", ""),
    ],
)
def test_proxies_that_nothing_would_ever_come_from_are_refused(text: str, named: str) -> None:
    with pytest.raises(Usage) as refused:
        ServeSettings.from_env({"REFAUG_PROXIES": text})
    assert refused.value.message == f"REFAUG_PROXIES names {named!r}"
    assert all(fact in refused.value.remedy for fact in ("127.0.0.1", "10.0.0.0/8"))


@pytest.mark.parametrize("text", ["*", "127.0.0.1", "::1, 10.0.0.0/8", "192.168.7.9"])
def test_proxies_are_addresses_networks_or_everybody(text: str) -> None:
    assert ServeSettings.from_env({"REFAUG_PROXIES": text}).proxies == text


def test_a_number_out_of_range_is_shown_as_it_is() -> None:
    with pytest.raises(Usage) as refused:
        ServeSettings.from_env({"REFAUG_ITEMS": "1234567"})
    assert all(fact in refused.value.message for fact in ("REFAUG_ITEMS", "1,234,567"))
    assert "100,000" in refused.value.remedy


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e400"])
def test_no_time_is_endless(text: str) -> None:
    with refusing(Usage, "REFAUG_TIMEOUT_S"):
        ServeSettings.from_env({"REFAUG_TIMEOUT_S": text})


@pytest.mark.parametrize("text", ["http://example.org", "example.org:80", "a b", "a,", ".example.org", "a,*", "[::1]"])
def test_hosts_are_names_without_scheme_and_port(text: str) -> None:
    named = text.removesuffix(",").split(",")[-1] if text != "a," else ""
    with pytest.raises(Usage) as refused:
        ServeSettings.from_env({"REFAUG_ALLOWED_HOSTS": text})
    assert refused.value.message == f"REFAUG_ALLOWED_HOSTS names {named!r}"
    assert refused.value.remedy.startswith("names without ports")


@pytest.mark.parametrize("text", ["*", "refaug.example.org", "refaug, scores_2.lab.example.org"])
def test_hosts_are_any_or_names_with_commas(text: str) -> None:
    assert ServeSettings.from_env({"REFAUG_ALLOWED_HOSTS": text}).allowed_hosts == text
