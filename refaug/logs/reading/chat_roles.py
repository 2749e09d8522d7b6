"""Roles of chat messages: which messages of a dialogue are its turns, and what is left out of it.

OpenAI's `messages` (role, content), ShareGPT's `conversations` (from, value) and the same lists of Hugging Face data
sets hold system prompts, results of tools and calls of tools between the turns. None answers the message before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

_ROLE_FIELDS: Final = ("role", "from")
# role of a message that is no turn → the role that the tag of its dialogue names
_NO_TURNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "system": "system",
        "developer": "developer",
        **dict.fromkeys(("tool", "function", "observation", "ipython", "function_response", "tool_response"), "tool"),
    }
)
_CALLS: Final = frozenset({"function_call", "tool_call"})  # ShareGPT's role of a message that only calls a tool
_ANSWERERS: Final = frozenset({"assistant", "gpt", "chatgpt", "bot", "model", "bing", "bard", "ai", "agent"})
_CALL_PARTS: Final = frozenset({"tool_use", "tool_call", "function_call", "server_tool_use"})
_TOOL_PARTS: Final = frozenset({"tool_result", "tool_response", "function_call_output"})
TOOL_CALLS: Final = "tool calls"


@dataclass(frozen=True)
class ChatTurns:
    """The turns of a dialogue with their places among its messages, and the count of what was left out, by name."""

    turns: Sequence[tuple[int, Any]]
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags that name the roles of the messages that are no turns."""
        return tuple(dict.fromkeys(f"role:{role}" for role in _NO_TURNS.values() if self.left_out[f"{role} messages"]))


def chat_turns(messages: Sequence[Any]) -> ChatTurns:
    """Return the messages that are turns; without roles, all of them are."""
    roles = [_role(message) for message in messages]
    if not any(roles):
        return ChatTurns(list(enumerate(messages)))
    left_out = Counter[str]()
    is_system_speaking = _is_system_speaking(roles)
    turns = list[tuple[int, Any]]()
    for index, (message, role) in enumerate(zip(messages, roles, strict=True)):
        if role in _CALLS:
            left_out[TOOL_CALLS] += 1
        elif role in _NO_TURNS and not (role == "system" and is_system_speaking):
            left_out[f"{_NO_TURNS[role]} messages"] += 1
        elif role and (turn := _turn(message, left_out)) is not None:
            turns.append((index, turn))
        elif not role:
            turns.append((index, message))
    return ChatTurns(turns, left_out)


def _role(message: Any) -> str:
    """Return the role of a message in lower case, or "" without one."""
    if not isinstance(message, Mapping):
        return ""
    role = next((message[name] for name in _ROLE_FIELDS if isinstance(message.get(name), str)), "")
    return str(role).strip().lower()


def _is_system_speaking(roles: Sequence[str]) -> bool:
    """Return whether "system" is what a data set calls the dialogue system that answers its users.

    That is so where nothing else answers, and a system message comes after a user's.
    """
    users = [place for place, role in enumerate(roles) if role not in _NO_TURNS and role not in _CALLS]
    if not users or _ANSWERERS & set(roles):
        return False
    return "system" in roles[users[0] :]


def _turn(message: Mapping[str, Any], left_out: Counter[str]) -> Mapping[str, Any] | None:
    """Return a message without its calls of tools, with the text of its parts; None if nothing but calls remains."""
    calls = _calls(message)
    left_out.update({TOOL_CALLS: calls} if calls else {})
    content = message.get("content")
    if not isinstance(content, list):
        return None if calls and content in (None, "") and not message.get("value") else message
    text, is_said = _text_of_parts(content, left_out)
    return {**message, "content": text} if is_said else None


def _calls(message: Mapping[str, Any]) -> int:
    calls = message.get("tool_calls")
    return len(calls) if isinstance(calls, list) else int(bool(message.get("function_call")))


def _text_of_parts(parts: Sequence[Any], left_out: Counter[str]) -> tuple[str, bool]:
    """Return the joined texts of a message in parts, and whether it has any part that is no tool's."""
    texts, tool_parts = list[str](), 0
    for part, kind in zip(parts, _kinds(parts), strict=True):
        if kind in _CALL_PARTS:
            left_out[TOOL_CALLS] += 1
        elif kind in _TOOL_PARTS:
            left_out["tool messages"] += 1
        elif isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            left_out["parts without text"] += 1
        tool_parts += kind in _CALL_PARTS or kind in _TOOL_PARTS
    return "\n".join(texts), tool_parts < len(parts)


def _kinds(parts: Sequence[Any]) -> Iterator[str]:
    return (str(part.get("type", "")) if isinstance(part, Mapping) else "" for part in parts)
