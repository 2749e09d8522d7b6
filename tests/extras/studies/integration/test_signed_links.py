"""Links that a recruiting service signs: who comes by them, and what is refused; keys from a file and over loopback."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from refusals import refusing
from serving import client_of, migrated
from starlette.testclient import TestClient
from studying import Person, add_bots, chat_protocol, invitation, new_study

from refaug.core.errors import Unavailable, Usage
from refaug.core.home import Settings
from refaug.extras.studies.participation.signed_links import (
    RecruiterKeys,
    SignedLinks,
    UnsignedLink,
    keys_of,
)
from refaug.service.server_settings import ServeSettings

# A key of this test alone, made by openssl, and a token that `openssl dgst -sha256 -sign` has signed with it.
N = int(
    "a7d2dd97fe738a2793863781d2084f2cf9d1ebb309fbdb4e1e68592092f07a3c584358b6a8acd8ffebe7e07a299285676bb7"
    "c41539127e88f16b25b51a9381068a91ea733b4d79ca0e6b56219bbd887a3cbdb199a1ca96fae25b0eaf595d67b08bfc363d"
    "bc07f1e679734e58632fbd5137fe2cb08616c79bcb68ebc6eaf65d6554d0ea3bd806337d75639ce3acee9ee3a98dad1d69b3"
    "c7d81e174195e234efe5d5a1bbf43334236380051e3df80b207e545bf62d2cd748f9e4fa6165d281e35a220a0294e22e5369"
    "618c9f191e62878903f65534aa6ceca0f5fa1ac54ee37ad0af4b3e16cfb6c16d723d49813144684e6b93572d7543f0155343"
    "d05a478e1df3",
    16,
)
D = int(
    "419d84cd320bcb86d8bb9fc52eb0d7fffe36f0a02235aa137b7911ebd5f796db342934acc9fb36a6acfe0e7ac4f948165cfb"
    "cefafb42fb5d2082e38dd0f3bdfd283d8fbc7901bc2ddf8060ff27ecad4919a993203dad3f659d0dbc0a9bf6949d66c5f811"
    "200cbd2bfeed31c30618babce0170d33016233adfa942da72ae3a334e202c7408c77df1037a175ef888f1f3b17de7982029f"
    "3a76419d90d8b78cf650ecd6c1db525e45e5e7fe48e92b16fd84e8c89cc5caccab417e7f5a2719433159ade85421ab6fe94b"
    "77d627bed77b9ce88a817c254cdd946781a1ab2f89858e9cabe21770f25c0f826260841774e0f6bd8f0957d66d04580a40a7"
    "1b5c9c71fa89",
    16,
)
BY_OPENSSL = (
    "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogImsxIn0.eyJzdWIiOiAibWFkZSBieSBvcGVuc3NsIiwgImF1ZCI6ICJodHRwczovL3Jl"
    "ZmF1Zy5leGFtcGxlLm9yZyIsICJleHAiOiA0MTAyNDQ0ODAwfQ.LDwLAuWvh0ZaA8FoH-Sux4dMFHao58K543e5_7nXHn1mKIDrQ"
    "bJpNt-I2TL7N40El3oDHbg91HVv4Q29dC3BUnfx8oKanB-BubyqlzuiY3xSDMKjLTriWOaoOeyZMxcZVT0ZAY5oOU5vPSUyMRKLj"
    "xtOabdc9vunU2dlvQGA8kxD9A7itf4CKiD1M04E0sEswxxY-IcpkfeyiAssUXAfJ6b2I-_et7vzaBpm6K3GiAc6Dymryjc5f6WBd"
    "2zFLAnkFAbZASw-CPBf3lyJvJ6819_8M9rrkf4USOcKZguzYAvIK6XBdD9kYgM3vZc-QCSZ9MSHend-ypsI7siucTXe9g"
)
AUDIENCE, NOW = "https://refaug.example.org", 1_800_000_000.0
ANNA = {"prolific": {"PROLIFIC_PID": "anna-0001", "STUDY_ID": "s"}}
SHA256_INFO = bytes.fromhex("3031300d060960864801650304020105000420")


def packed(content: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def key_set(**changes: Any) -> bytes:
    """The public key as a service publishes it."""
    key = {"kty": "RSA", "kid": "k1", "alg": "RS256", "use": "sig", "n": packed(N.to_bytes(256, "big")), "e": "AQAB"}
    return json.dumps({"keys": [{**key, **changes}]}).encode()


def token_of(claims: dict[str, Any], *, algorithm: str = "RS256", key: str = "k1", **header: Any) -> str:
    """A token of the service: what is signed is raised to the private exponent."""
    head = packed(json.dumps({"alg": algorithm, "kid": key, **header}).encode())
    content = f"{head}.{packed(json.dumps(claims).encode())}"
    digest = SHA256_INFO + hashlib.sha256(content.encode()).digest()
    padded = b"\x00\x01" + b"\xff" * (256 - len(digest) - 3) + b"\x00" + digest
    return f"{content}.{packed(pow(int.from_bytes(padded, 'big'), D, N).to_bytes(256, 'big'))}"


def claims_of(**changes: Any) -> dict[str, Any]:
    """What a good token claims; a change to None leaves a claim out."""
    claims = {"aud": AUDIENCE, "exp": NOW + 600, "iat": NOW, **ANNA, **changes}
    return {name: claim for name, claim in claims.items() if claim is not None}


@pytest.fixture
def links(tmp_path: Path) -> SignedLinks:
    """Links checked by the key in a file."""
    (tmp_path / "keys.json").write_bytes(key_set())
    return SignedLinks(RecruiterKeys(str(tmp_path / "keys.json")), AUDIENCE, now=lambda: NOW)


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("changes", "person"),
    [
        ({}, "PROLIFIC_PID=anna-0001"),
        ({"prolific": None, "workerId": "w7"}, "workerId=w7"),
        ({"prolific": {"STUDY_ID": "s"}, "sub": "someone"}, "id=someone"),
        ({"aud": ["https://other.example.org", AUDIENCE]}, "PROLIFIC_PID=anna-0001"),
        ({"exp": NOW - 59}, "PROLIFIC_PID=anna-0001"),
    ],
)
def test_a_signed_token_names_the_person(links: SignedLinks, changes: dict[str, Any], person: str) -> None:
    assert links.person({"prolific_token": token_of(claims_of(**changes)), "SESSION_ID": "x"}) == person


def test_a_token_that_openssl_has_signed_holds_and_one_of_another_time_does_not(links: SignedLinks) -> None:
    assert links.person({"token": BY_OPENSSL}) == "id=made by openssl"
    late = SignedLinks(links._keys, AUDIENCE, now=lambda: 4_102_444_800.0 + 60)
    with refusing(UnsignedLink, "expired"):
        late.person({"token": BY_OPENSSL})


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (token_of(claims_of(exp=NOW - 61)), "expired"),
        (token_of(claims_of(exp=None)), "does not say when it expires"),
        (token_of(claims_of(nbf=NOW + 61)), "not valid yet"),
        (token_of(claims_of(aud="https://other.example.org")), "https://other.example.org"),
        (token_of(claims_of(aud=None)), "None"),
        (token_of(claims_of(prolific=None)), "has no participant id"),
        (token_of(claims_of(), algorithm="HS256"), "HS256"),
        (token_of(claims_of(), algorithm="none"), "none"),
        (token_of(claims_of(), key="k2"), "not signed by a key"),
        (token_of(claims_of(), crit=["exp"]), "that can be used"),
        (token_of(claims_of())[:-8] + "AAAAAAAA", "not signed by a key"),
        (token_of(claims_of()) + "=", "not a JSON Web Token"),
        (token_of(claims_of()) + ".x", "not a JSON Web Token"),
        (f"{packed(b'[]')}.{packed(b'[]')}.{packed(b'')}", "that can be used"),
        ("a.b", "not a JSON Web Token"),
    ],
)
def test_whatever_does_not_hold_is_refused_with_the_reason(links: SignedLinks, token: str, reason: str) -> None:
    with refusing(UnsignedLink, reason):
        links.person({"prolific_token": token})


def test_claims_of_one_token_under_the_signature_of_another_are_refused(links: SignedLinks) -> None:
    mine, head = token_of(claims_of()), token_of(claims_of()).partition(".")[0]
    forged = packed(json.dumps(claims_of(prolific={"PROLIFIC_PID": "berta"})).encode())
    with refusing(UnsignedLink):
        links.person({"token": f"{head}.{forged}.{mine.rpartition('.')[2]}"})


def test_a_bare_id_is_refused_and_no_id_is_nobody(links: SignedLinks) -> None:
    assert links.person({"SESSION_ID": "x"}) is None
    with refusing(UnsignedLink):
        links.person({"PROLIFIC_PID": "anna-0001"})


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"nothing", "not name a JSON Web Key Set"),
        (b'{"keys": 1}', "not name a JSON Web Key Set"),
        (b'{"keys": []}', "without keys of RS256"),
        (key_set(kty="EC"), "without keys of RS256"),
        (key_set(use="enc"), "without keys of RS256"),
        (key_set(n=packed(b"\xff" * 128)), "1,024"),
        (key_set(e=packed(b"\x01")), "2,048"),
    ],
)
def test_sets_without_a_usable_key_are_refused(content: bytes, reason: str) -> None:
    with refusing(Usage, reason):
        keys_of(content)


@contextmanager
def published(contents: list[bytes]) -> Iterator[tuple[str, list[str]]]:
    """An address on loopback that answers with the first content, and the paths that were asked for."""
    asked = list[str]()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if contents[0] else 302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(contents[0])

        def log_message(self, *_given: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/jwks.json", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_keys_of_an_address_are_kept_for_an_hour_and_new_ones_looked_for_after_a_minute() -> None:
    moment, contents = [0.0], [key_set()]
    with published(contents) as (address, asked):
        keys = RecruiterKeys(address, clock=lambda: moment[0])
        found = [keys.find("k1") for _ in range(3)]
        assert [key.modulus if key else None for key in found] == [N, N, N]
        assert len(asked) == 1
        contents[0] = key_set(kid="k2")
        for moment[0], expected in ((59.0, False), (61.0, True), (62.0, True)):
            assert (keys.find("k2") is not None) is expected
        assert (keys.find("k1"), len(asked)) == (None, 2), "what the service has taken out signs nothing any more"
        contents[0] = b""  # a redirect
        moment[0] = 4_000.0
        assert keys.find("k2") is not None, "the keys of before stay in use"
        assert asked == ["/jwks.json"] * 3


def test_without_any_keys_people_are_told_to_come_again(tmp_path: Path) -> None:
    with refusing(Unavailable):
        RecruiterKeys(str(tmp_path / "missing.json")).find("k1")


@pytest.mark.parametrize(
    "settings",
    [
        {"recruiter_keys": "/keys.json"},
        {"recruiter_audience": AUDIENCE},
        {"recruiter_keys": "http://recruiter.example.org/keys", "recruiter_audience": AUDIENCE},
    ],
)
def test_half_of_the_settings_and_an_address_that_anybody_can_replace_are_refused(settings: dict[str, str]) -> None:
    with refusing(Usage, "REFAUG_RECRUITER_KEYS"):
        ServeSettings(**settings)


# ── who comes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("signed")
    (folder / "home").mkdir()
    (folder / "keys.json").write_bytes(key_set())
    settings = {"recruiter_keys": str(folder / "keys.json"), "recruiter_audience": AUDIENCE}
    with client_of(migrated(Settings(home=folder / "home")), **settings) as opened:
        add_bots(opened, "quokka")
        yield opened


def signed(person: str) -> dict[str, str]:
    """The parameters of a link that the service has signed for a person."""
    return {"prolific_token": token_of({"aud": AUDIENCE, "exp": 4_102_444_800, "prolific": {"PROLIFIC_PID": person}})}


def test_nobody_claims_an_id_first_and_its_owner_comes_back_by_the_service(client: TestClient) -> None:
    token = new_study(client, "signed", chat_protocol("quokka"))
    for external in ({"PROLIFIC_PID": "anna-0001"}, {"prolific_token": token_of(claims_of(exp=1))}):
        refused = Person(client).open(token, external=external)
        assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert client.get("/v1/studies/signed/participants").json()["participants"] == []

    anna = Person(client)
    code = anna.enter(token, external=signed("anna-0001"))["code"]
    anna.agree()
    task = anna.done("tasks/next")["task"]["id"]
    anna.say("the first line")

    elsewhere = Person(client)  # another device, by the service's page: it signs anew
    state = elsewhere.enter(token, external=signed("anna-0001"))
    assert (state["code"], state["task"]["id"]) == (code, task)
    assert state["task"]["sides"][0]["messages"][0]["text"] == "the first line"
    assert elsewhere.resume == "", "the link to go on is shown at the start alone"
    assert Person(client).open(token, external={"PROLIFIC_PID": "anna-0001"}).status_code == 403
    assert Person(client).enter(token, external=signed("berta-0002"))["code"] != code
    assert Person(client).enter(anna.resume, external={"PROLIFIC_PID": "anna-0001"})["code"] == code


def test_links_for_one_person_need_no_service(client: TestClient) -> None:
    new_study(client, "personal", chat_protocol("quokka"))
    personal = invitation(client, "personal", uses_max=1)
    code = Person(client).enter(personal)["code"]
    assert Person(client).enter(personal)["code"] == code
    assert Person(client).open(personal, external={"PROLIFIC_PID": "anna-0001"}).status_code == 403
