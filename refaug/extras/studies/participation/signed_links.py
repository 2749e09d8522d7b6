"""Links that a recruiting service signs: a JSON Web Token (RS256) names the person, and cannot be made by others.

The keys are a JSON Web Key Set, from a file or from the service's address; those of an address are kept for an hour.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from refaug.core.errors import NotAllowed, Unavailable, Usage

# Parameters of recruiting services that name a person; others name a study or a session, and are not looked at.
PERSON_PARAMETERS: Final = (
    "PROLIFIC_PID", "workerId", "participantId", "participant_id", "survey_code", "rid", "pid", "id",
)  # fmt: skip
TOKEN_PARAMETERS: Final = ("prolific_token", "jwt", "token")  # of an address, with the token
MOST_CHARACTERS: Final = 4_096  # of a token
_MOST_BYTES: Final = 1 << 18  # of a key set
_KEPT_S: Final = 3_600.0  # that keys of an address are used without another look
_AGAIN_S: Final = 60.0  # between two looks for a key that is not there
_FETCH_S: Final = 5.0
_CLOCKS_S: Final = 60.0  # by which two clocks may differ
_LEAST_BITS, _MOST_BITS = 2_048, 8_192
_SHA256_INFO: Final = bytes.fromhex("3031300d060960864801650304020105000420")  # of PKCS #1 v1.5, before the hash


def find_person(external: Mapping[str, str]) -> str | None:
    """Return the parameter that names the person, with its name."""
    named = (f"{name}={external[name]}" for name in PERSON_PARAMETERS if external.get(name))
    return next(named, None)


class UnsignedLink(NotAllowed):
    """A link has an id without a signature, or with one that does not hold."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"this link is not signed as it has to be: {reason}", remedy="open it again where you found it"
        )


@dataclass(frozen=True, kw_only=True)
class RsaKey:
    """A public key."""

    modulus: int
    exponent: int

    def has_signed(self, content: bytes, signature: bytes) -> bool:
        """Whether the signature is that of the content, by RSASSA-PKCS1-v1_5 with SHA-256."""
        size, signed = (self.modulus.bit_length() + 7) // 8, int.from_bytes(signature, "big")
        if len(signature) != size or signed >= self.modulus:
            return False
        digest = _SHA256_INFO + hashlib.sha256(content).digest()
        padded = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
        return hmac.compare_digest(pow(signed, self.exponent, self.modulus).to_bytes(size, "big"), padded)


class RecruiterKeys:
    """The keys of a recruiting service, by their ids."""

    def __init__(self, source: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._source, self._clock, self._lock = source, clock, threading.Lock()
        self._keys, self._read_at = dict[str, RsaKey](), -_KEPT_S

    def find(self, key_id: str) -> RsaKey | None:
        """Return a key; keys are read again after an hour, and for a missing key after a minute.

        While they cannot be read again, those of before stay in use; Unavailable where there are none.
        """
        with self._lock:
            age = self._clock() - self._read_at
            if age >= (_AGAIN_S if key_id not in self._keys else _KEPT_S):
                self._read()
            return self._keys.get(key_id)

    def _read(self) -> None:
        began = self._clock()
        try:
            self._keys = keys_of(_content(self._source))
        except (OSError, Usage) as error:
            if not self._keys:
                why = error.message if isinstance(error, Usage) else type(error).__name__
                raise Unavailable(
                    f"the keys of the recruiting service cannot be read ({why})", remedy="try it again in a minute"
                ) from None
        self._read_at = began


def keys_of(content: bytes) -> dict[str, RsaKey]:
    """Return the keys of a JSON Web Key Set that sign by RS256; Usage where there are none."""
    try:
        listed = orjson.loads(content)["keys"]
        fit = [key for key in listed if key.get("kty") == "RSA" and key.get("alg", "RS256") == "RS256"]
        signing = [key for key in fit if key.get("use", "sig") == "sig"]
        keys = {
            str(key.get("kid", "")): RsaKey(modulus=_number(key["n"]), exponent=_number(key["e"])) for key in signing
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Usage(
            "REFAUG_RECRUITER_KEYS does not name a JSON Web Key Set",
            remedy='{"keys": [{"kty": "RSA", "kid": …, "n": …, "e": …}]}',
        ) from None
    for name, key in keys.items():
        bits = key.modulus.bit_length()
        if not _LEAST_BITS <= bits <= _MOST_BITS or key.exponent not in range(3, 1 << 32, 2):
            remedy = f"{_LEAST_BITS:,} to {_MOST_BITS:,} bits, and an odd exponent below 2^32"
            raise Usage(f"key {name[:40]!r} of REFAUG_RECRUITER_KEYS has {bits:,} bits", remedy=remedy)
    if not keys:
        raise Usage("REFAUG_RECRUITER_KEYS names a set without keys of RS256", remedy="the service's current set")
    return keys


class SignedLinks:
    """What a recruiting service says of who comes by its links."""

    def __init__(self, keys: RecruiterKeys, audience: str, *, now: Callable[[], float] = time.time) -> None:
        self._keys, self._audience, self._now = keys, audience, now

    def person(self, external: Mapping[str, str]) -> str | None:
        """Return the signed id of who comes, or None where the address has no id; UnsignedLink for a bare id."""
        token = next((external[name] for name in TOKEN_PARAMETERS if external.get(name)), None)
        if token is None:
            if find_person(external) is not None:
                raise UnsignedLink("its id has no signature")
            return None
        claims = self._claims(token)
        inner = [one for one in claims.values() if isinstance(one, dict)]
        named = next((found for one in (claims, *inner) if (found := find_person(_texts(one)))), None)
        if named is None:
            named = find_person({"id": subject}) if isinstance(subject := claims.get("sub"), str) else None
        if named is None:
            raise UnsignedLink(f"its token has no participant id: none of {', '.join(PERSON_PARAMETERS)}, sub")
        return named

    def _claims(self, token: str) -> dict[str, Any]:
        """Return what a token claims, once its signature, its time and its audience hold."""
        parts = token.split(".")
        try:
            head, body, signature = (_bytes(part) for part in parts)
            header, claims = orjson.loads(head), orjson.loads(body)
        except ValueError:
            raise UnsignedLink("its token is not a JSON Web Token") from None
        if not isinstance(header, dict) or not isinstance(claims, dict) or "crit" in header:
            raise UnsignedLink("its token is not a JSON Web Token that can be used")
        if header.get("alg") != "RS256":
            raise UnsignedLink(f"its token is signed by {str(header.get('alg'))[:20]!r}, and RS256 is expected")
        key = self._keys.find(str(header.get("kid", "")))
        if key is None or not key.has_signed(token.rpartition(".")[0].encode(), signature):
            raise UnsignedLink("its token is not signed by a key of the recruiting service")
        self._require_time(claims)
        audience = claims.get("aud")
        if self._audience not in (audience if isinstance(audience, list) else [audience]):
            raise UnsignedLink(f"its token is meant for {str(audience)[:80]!r}, and not for {self._audience!r}")
        return claims

    def _require_time(self, claims: Mapping[str, Any]) -> None:
        now, expires, begins = self._now(), claims.get("exp"), claims.get("nbf", 0)
        if not isinstance(expires, int | float) or not isinstance(begins, int | float):
            raise UnsignedLink("its token does not say when it expires")
        if now >= expires + _CLOCKS_S:
            raise UnsignedLink("its token has expired")
        if now < begins - _CLOCKS_S:
            raise UnsignedLink("its token is not valid yet")


def signed_links(keys: str, audience: str) -> SignedLinks | None:
    """Return what checks links by the settings of a server; None where it has no recruiter's keys."""
    return SignedLinks(RecruiterKeys(keys), audience) if keys else None


def _content(source: str) -> bytes:
    """Return the bytes of a key set; a redirect is a fault."""
    if urlsplit(source).scheme not in ("http", "https"):
        return Path(source).read_bytes()[:_MOST_BYTES]
    opener = urllib.request.build_opener(_NoRedirect)
    with opener.open(source, timeout=_FETCH_S) as answer:
        content: bytes = answer.read(_MOST_BYTES)
        return content


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect leads nowhere: keys come from the address in the settings."""

    def redirect_request(self, *_given: Any, **_named: Any) -> None:
        return None


def _bytes(part: str) -> bytes:
    """Read base64url without padding, in its one spelling."""
    content = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    if base64.urlsafe_b64encode(content).rstrip(b"=").decode() != part:
        raise ValueError(part)
    return content


def _number(part: str) -> int:
    return int.from_bytes(_bytes(part.rstrip("=")), "big")


def _texts(claims: Mapping[str, Any]) -> dict[str, str]:
    return {name: one for name, one in claims.items() if isinstance(one, str)}
