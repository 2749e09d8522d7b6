"""The calls of commands: tables in calls/commands, a line for each call, of which the first word is the call's id."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from goldens.golden_home import Ended, run_command, unpacked
from goldens.normal import Normaliser
from goldens.tables import filled_in, outline, parsed, table

_CODE: Final = re.compile(r"^error \[(\w+)\]", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class CommandCall:
    """A line of a table.

        ID  ARGUMENTS [< FILE] [> FILE] [=> FILE] [~]

    `<` is read from, `>` keeps the output for later calls, `=>` is a file that the command writes and whose content is
    a part of the answer; `~` keeps of the answer only which fields there are and the types of their values.
    `{CALL:path}` stands for a part of an earlier answer, such as `{sets.list:sets.0.id}`.
    """

    id: str
    arguments: tuple[str, ...]
    stdin: str = ""
    stdout: str = ""
    written: str = ""
    is_outline: bool = False

    @classmethod
    def parse(cls, name: str, spelling: str) -> CommandCall:
        """Read a line of a table."""
        words = shlex.split(spelling)
        settings: dict[str, Any] = {"is_outline": words[-1] == "~"}
        words = [word for word in words if word != "~"]
        for mark, field in (("<", "stdin"), (">", "stdout"), ("=>", "written")):
            if mark in words:
                position = words.index(mark)
                settings[field] = words[position + 1]
                del words[position : position + 2]
        return cls(id=name, arguments=tuple(words), **settings)

    def answer(self, earlier: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Run the command; return what it printed, and the answer to record."""
        arguments = ["--quiet", "--home", "home", *(filled_in(word, earlier) for word in self.arguments)]
        ended = run_command(arguments, Path(self.stdin).read_text("utf-8") if self.stdin else "")
        if self.stdout:
            Path(self.stdout).write_text(ended.out, "utf-8")
        printed = parsed(ended.out)
        answer: dict[str, Any] = {"exit": ended.code}
        if code := error_code(ended):
            answer["code"] = code
        if ended.out:
            answer["answer"] = outline(printed) if self.is_outline else printed
        if self.written:
            answer["file"] = parsed(Path(self.written).read_text("utf-8"))
        return printed, answer


def error_code(ended: Ended) -> str | None:
    """Return the code of the error on stderr, however it is printed."""
    start = ended.err.find('{"error"')
    if start >= 0:
        return str(json.JSONDecoder().raw_decode(ended.err[start:])[0]["error"]["code"])
    match = _CODE.search(ended.err)
    return match[1] if match else None


def command_calls(name: str) -> Iterator[CommandCall]:
    """Yield the calls of a table."""
    for call, spelling in table("commands", name):
        yield CommandCall.parse(call, spelling)


def command_answers(group: str) -> dict[str, Any]:
    """Make all calls of a table, in their order, over a home of their own."""
    printed: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    with unpacked() as folder, _surroundings(group):
        normal = Normaliser(folder)
        assert normal.known  # read before calls write into the home
        for call in command_calls(group):
            printed[call.id], answer = call.answer(printed)
            answers[call.id] = normal(answer)
    return answers


def _surroundings(group: str) -> AbstractContextManager[None]:
    return _judge() if group == "judges" else nullcontext()


@contextmanager
def _judge() -> Iterator[None]:
    """Let an endpoint be there that rates replies by their length, and in pairs likes the longer one."""
    from endpoints import Received, endpoint, openai, write_judge  # noqa: PLC0415

    def rate(received: Received) -> dict[str, Any]:
        if "Reply A:" in received.prompt:
            lengths = [len(received.part(f"Reply {side}")) for side in "AB"]
            better = "tie" if lengths[0] == lengths[1] else "A" if lengths[0] > lengths[1] else "B"
            return openai(json.dumps({"better": better}))
        return openai(json.dumps({"overall": 1 + len(received.reply) % 5}))

    with endpoint(rate) as fake:
        write_judge(Path("home"), fake.url)
        yield
