"""The verdicts of `refaug-client ci` for other programs: JUnit's XML, and annotations of GitHub's workflows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET  # writes only: nothing from elsewhere is parsed

from .baseline import Verdict

_SUITE = "refaug-client ci"
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, 2.2


def junit_text(verdicts: Sequence[Verdict], set_id: str) -> str:
    """Return the verdicts as a JUnit file: one suite with a case for each metric, and a failure where it fell."""
    failures = sum(not verdict.is_passed for verdict in verdicts)
    counts = {"name": _SUITE, "tests": str(len(verdicts)), "failures": str(failures), "errors": "0", "time": "0"}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {**counts, "skipped": "0"})
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", {"name": "set", "value": _valid(set_id)})
    for verdict in verdicts:
        facts = {"name": _valid(verdict.metric), "classname": f"refaug.{_valid(set_id)}", "time": "0"}
        case = ET.SubElement(suite, "testcase", facts)
        if not verdict.is_passed:
            failure = {"message": _valid(verdict.sentence()), "type": "Drop" if verdict.is_worse else "NoScore"}
            ET.SubElement(case, "failure", failure).text = _valid(verdict.sentence())
        ET.SubElement(case, "system-out").text = _valid(f"{verdict.sentence()}\n{verdict.now.signature}")
    ET.indent(suites)
    text = ET.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _valid(text: str) -> str:
    """Return text without characters that no XML file may have."""
    return _NOT_IN_XML.sub("\ufffd", text)


def annotation_lines(verdicts: Sequence[Verdict], file: str) -> Iterator[str]:
    """Yield a workflow command for each failed metric, which GitHub shows beside the file; stdin has no file."""
    for verdict in verdicts:
        if not verdict.is_passed:
            place = "" if file == "-" else f"file={_property(file)},"
            yield f"::error {place}title={_property(f'{_SUITE}: {verdict.metric}')}::{_message(verdict.sentence())}"


def _message(text: str) -> str:
    """Escape text as the runner reads it: a line ends a command, and %XX stands for a character."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
