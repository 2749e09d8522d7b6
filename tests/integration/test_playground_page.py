"""The playground in a real browser, against the whole service over a small index."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines import TEXTS
from page_tests import (
    SIZES,
    Browsed,
    Keyed,
    accessibility_faults,
    asking_for_keys,
    browsing,
    looks_right,
    overflow,
    wait_until_quiet,
)
from recommended_homes import ITEMS, recommended_home
from serving import migrated, small_home

import refaug.service.web.pages
from refaug.core.home import Settings

pytestmark = [pytest.mark.machine, pytest.mark.slow]
STATIC = Path(refaug.service.web.pages.__file__).parent / "static"
UTTERANCE, GOLD, REPLY = TEXTS[3], TEXTS[40], TEXTS[60]
TILES = (
    "[...document.querySelectorAll('#scores-A .score')]"
    ".map((one) => [one.dataset.metric, one.querySelector('.value').textContent])"
)


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    home = small_home(tmp_path_factory.mktemp("home"))
    with browsing(home.home, tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def page(browsed: Browsed) -> Iterator[Any]:
    """A page of the playground with nothing in it, whose console stays empty."""
    page = browsed.page
    page.go(f"{browsed.address}/healthz")
    page.run("sessionStorage.clear()")
    page.said.clear()
    page.asked.clear()
    page.go(f"{browsed.address}/")
    page.until("document.querySelector('#setting-mode') && document.querySelector('#references').textContent")
    yield page
    assert page.said == []
    assert [one for one in page.asked if not one.startswith((browsed.address, "data:"))] == []


def filled(page: Any, utterance: str = UTTERANCE, gold: str = GOLD, reply: str = REPLY) -> None:
    """Type a whole item, and wait for its scores."""
    for selector, text in (("#turn-0", utterance), ("#gold", gold), ("#reply-0", reply)):
        page.type(selector, text)
    page.until(f"{TILES}.length === 4 && document.querySelectorAll('.reference').length > 5")


def choose(page: Any, field: str, choice: str) -> None:
    """Set a field as a hand does."""
    node = f"document.querySelector({json.dumps(field)})"
    page.run(f"{node}.value = {json.dumps(choice)}; {node}.dispatchEvent(new Event('change'))")


def until_tiles(page: Any, wanted: dict[str, str]) -> None:
    """Wait until the scores of the first reply are these."""
    text = json.dumps(wanted, separators=(",", ":"), ensure_ascii=False)
    page.until(f"JSON.stringify(Object.fromEntries({TILES})) === {json.dumps(text)}")


def rounded(score: float | None) -> str:
    return "–" if score is None else f"{score:.3f}".replace("-", "−")


def scores_of(browsed: Browsed, reply: str, utterance: str = UTTERANCE) -> dict[str, str]:
    """The same scores, asked for by a program."""
    item = {"id": "playground", "utterance": utterance, "references": [GOLD], "replies": {"A": reply}}
    body = {"items": [item], "metrics": ["bleu", "multi-bleu", "upsilon-bleu", "rater"], "on_error": "report"}
    answer = browsed.server.ask("POST", "/v1/scores", json=body).json()
    return {one["metric"]: rounded(one["systems"]["A"]["replies"][0]["score"]) for one in answer["scores"]}


def test_typing_an_item_shows_its_references_and_scores(browsed: Browsed, page: Any) -> None:
    filled(page)
    until_tiles(page, scores_of(browsed, REPLY))
    body = {"items": [{"id": "i", "utterance": UTTERANCE, "references": [GOLD]}], "settings": {"show_excluded": 60}}
    item = browsed.server.ask("POST", "/v1/references", json=body).json()["items"][0]
    shown = page.run("[...document.querySelectorAll('.reference .said .user-text')].map((one) => one.textContent)")
    assert shown == [one["text"] for one in item["references"]]
    excluded = page.run("[...document.querySelectorAll('#excluded .user-text')].map((one) => one.textContent)")
    assert excluded[::2] == [one["text"] for one in item.get("excluded_references", [])]
    assert (
        str(sum(item.get("excluded", {}).values())) in page.run("document.querySelector('#excluded-title').textContent")
        or not excluded
    )


@pytest.fixture(scope="module")
def recommended(browsed: Browsed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """A page of a service whose index suits the recommended metric."""
    folder = tmp_path_factory.mktemp("recommended")
    recommended_home(folder, is_calibrated=True)
    with asking_for_keys(browsed, Settings(home=folder / "home"), keys=False) as found:
        found.page.until("document.querySelector('#first-example') && document.querySelector('#served b')")
        yield found


WHY = (
    "Object.fromEntries([...document.querySelectorAll('#why-A tbody tr')].map((row) => [row.dataset.part,"
    " [...row.querySelectorAll('td')].map((cell) => cell.innerText.trim().split('\\n')[0])]))"
)


def test_a_score_by_the_recommended_metric_says_of_what_it_is_made(recommended: Keyed) -> None:
    page, item = recommended.page, ITEMS[0]
    page.click("#add-turn")
    for selector, text in (
        ("#turn-0", item["turns"][0]),
        ("#turn-1", item["turns"][1]),
        ("#gold", item["references"][0]),
    ):
        page.type(selector, text)
    page.type("#reply-0", "i drink big tea")
    page.until("document.querySelectorAll('.reference').length > 10 && document.querySelector('#why-A')")
    sent = {**item, "replies": {"A": "i drink big tea"}}
    body = {"items": [sent], "metrics": ["refaug-1:encoder=tiny"], "explain": True}
    (scores,) = recommended.client.post("/v1/scores", json=body).json()["scores"]
    (reply,) = scores["systems"]["A"]["replies"]
    page.until(f"document.querySelector('#scores-A .score.main .value')?.textContent === '{rounded(reply['score'])}'")
    told, shown = reply["combination"], page.run(WHY)
    total = sum(part["share"] for part in told["parts"])
    assert list(shown) == [*(part["part"] for part in told["parts"]), "unguarded", "copied", "order", "score"]
    for part in told["parts"]:
        share = f"{100 * part['share'] / total:.0f} %"
        assert shown[part["part"]] == [rounded(part["value"]), share, rounded(part["alone"])]
    assert shown["unguarded"][-1] == rounded(told["unguarded"])
    assert shown["score"][-1] == rounded(reply["score"])
    counted = [like for like in reply["likenesses"] if like["counts"]]
    assert page.run(
        "[...document.querySelectorAll('#why-box-A .closest li')].map((row) =>"
        " [row.querySelector('.figures').textContent, row.querySelector('.user-text').textContent])"
    ) == [[rounded(like["similarity"]), like["text"]] for like in counted]
    near = page.run("[...document.querySelectorAll('.reference.near .said .user-text')].map((one) => one.textContent)")
    assert sorted(near) == sorted(like["text"] for like in counted)
    page.click("#why-box-A .closest .link")
    lit = page.run("[...document.querySelectorAll('.reference.lit .said .user-text')].map((one) => one.textContent)")
    assert lit == [counted[0]["text"]]
    looks_right(page)
    page.click("#all-references")
    assert page.run("[...document.querySelectorAll('.reference')].every((one) => one.checkVisibility())")
    assert page.said == []


def test_without_an_index_an_example_shows_scores_and_where_an_index_is_made(browsed: Browsed, tmp_path: Path) -> None:
    home = migrated(Settings(home=tmp_path))
    with asking_for_keys(browsed, home, keys=False) as found:
        page = found.page
        page.until("document.querySelectorAll('#references button').length >= 4")
        looks_right(page)
        page.click("#first-example")
        page.until(f"{TILES}.length === 3 && document.querySelectorAll('.reference').length > 4")
        references = page.run(
            "[...document.querySelectorAll('.reference .said .user-text')].map((one) => one.textContent)"
        )
        example = json.loads((STATIC / "examples.json").read_text("utf-8"))[0]
        given = [{"text": example["gold"], "source": "gold", "weight": 1}]
        given += [{**reference, "source": "supplied"} for reference in example["given"]]
        assert references == [reference["text"] for reference in given]
        item = {"id": "playground", "utterance": example["turns"][0], "references": given}
        item["replies"] = {"A": example["replies"][0]}
        body = {"items": [item], "metrics": ["bleu", "multi-bleu", "upsilon-bleu"], "references": "given"}
        scores = found.client.post("/v1/scores", json=body).json()["scores"]
        until_tiles(page, {one["metric"]: rounded(one["systems"]["A"]["replies"][0]["score"]) for one in scores})
        assert page.run("document.querySelector('#references-state a').pathname") == "/service"
        looks_right(page)
        assert page.said == []


def test_a_lost_connection_is_said_and_typing_goes_on_when_it_is_back(page: Any) -> None:
    def lose(*, is_lost: bool) -> None:
        speed = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        page.tell("Network.emulateNetworkConditions", offline=is_lost, **speed)

    filled(page)
    lose(is_lost=True)
    page.type("#reply-0", "we like green")
    page.until("document.querySelector('#connection').innerText.includes('connection to the service is lost')")
    assert "from before the connection was lost" in page.text("#old-scores")
    assert page.run("document.querySelector('#old-scores').getAttribute('role')") == "status"
    values = "getComputedStyle(document.querySelector('.score .value'))"
    assert page.run(f"{TILES}.length") == 4, "old scores stay"
    assert page.run(f"{values}.fontStyle") == "italic"
    assert page.run(f"{values}.color === getComputedStyle(document.querySelector('.score .basis')).color")
    assert accessibility_faults(page) == []
    page.tell("Input.insertText", text=" apples")
    lose(is_lost=False)
    page.until("document.querySelector('#connection').hidden && document.querySelector('#served b')")
    page.until(f"{TILES}.length === 4 && document.querySelector('#score-problem').innerText === ''")
    page.until("document.querySelector('#old-scores').hidden")
    assert page.run(f"{values}.fontStyle") == "normal"
    assert page.run("document.activeElement.id") == "reply-0"
    assert page.run("document.activeElement.value") == "we like green apples"
    page.said[:] = [one for one in page.said if "ERR_INTERNET_DISCONNECTED" not in one]


def test_scores_follow_the_last_letter_typed(browsed: Browsed, page: Any) -> None:
    filled(page)
    page.run("document.querySelector('#reply-0').value = ''")
    page.run("document.querySelector('#reply-0').focus()")
    for letter in "we like red apples":
        page.tell("Input.insertText", text=letter)
    until_tiles(page, scores_of(browsed, "we like red apples"))


def test_only_a_reply_that_has_changed_is_scored_again(browsed: Browsed, page: Any) -> None:
    filled(page)
    page.click("#add-reply")
    page.type("#reply-1", "the boats are blue")
    page.until("document.querySelectorAll('#scores-B .score').length === 4")
    wait_until_quiet(page)
    before = page.run("document.querySelector('#scores-A').innerHTML")
    page.run(
        "window.sent = []; window.asked = window.fetch; window.fetch = (address, order) => {"
        " const isScores = String(address).endsWith('/v1/scores');"
        " if (isScores) window.sent.push(Object.keys(JSON.parse(order.body).items[0].replies));"
        " return window.asked(address, order); }; 1"
    )
    page.type("#reply-1", "we like red apples")
    wanted = scores_of(browsed, "we like red apples")
    tiles = TILES.replace("#scores-A", "#scores-B")
    page.until(f"Object.fromEntries({tiles})['upsilon-bleu'] === {json.dumps(wanted['upsilon-bleu'])}")
    assert dict(page.run(tiles)) == wanted
    assert {tuple(systems) for systems in page.run("window.sent")} == {("B",)}
    assert page.run("document.querySelector('#scores-A').innerHTML") == before
    until_tiles(page, scores_of(browsed, REPLY))


def test_all_replies_are_scored_again_when_the_metrics_have_another_version(page: Any) -> None:
    filled(page)
    page.click("#add-reply")
    page.type("#reply-1", "the boats are blue")
    page.until("document.querySelectorAll('#scores-B .score').length === 4")
    wait_until_quiet(page)
    page.run(
        "window.sent = []; window.asked = window.fetch; window.fetch = async (address, order) => {"
        " const answer = await window.asked(address, order);"
        " if (!String(address).endsWith('/v1/scores')) return answer;"
        " window.sent.push(Object.keys(JSON.parse(order.body).items[0].replies).join(''));"
        " const content = await answer.json();"
        " for (const metric of content.scores) metric.signature += '|newer';"
        " return new Response(JSON.stringify(content), {status: answer.status, headers: answer.headers}); }; 1"
    )
    page.type("#reply-1", "we like red apples")
    page.until("window.sent.includes('AB')")
    wait_until_quiet(page)
    assert page.run("window.sent").index("AB") == page.run("window.sent.lastIndexOf('AB')") > 0
    assert page.run("document.querySelectorAll('#scores-A .score').length") == 4


def test_pointing_at_a_word_lights_what_credited_it_and_back(page: Any) -> None:
    filled(page, reply=GOLD)
    page.until("document.querySelectorAll('#words-A .word.positive').length")
    page.run("document.querySelector('#words-A .word.positive').focus()")
    assert "is credited by reference" in page.text("#pointed")
    lit = page.run("document.querySelector('.reference.lit').id")
    assert page.run(f"document.querySelectorAll('#{lit} .word.lit').length") > 0
    page.run("document.activeElement.blur()")
    assert page.run("document.querySelectorAll('.lit').length") == 0
    page.run(f"document.querySelector('#{lit} .said .word').dispatchEvent(new PointerEvent('pointerenter'))")
    page.until("!document.querySelector('#pointed').hidden")


def test_dropping_and_reweighing_a_reference_moves_the_score(page: Any) -> None:
    filled(page, reply=GOLD)
    before = dict(page.run(TILES))
    page.click("#reference-0 .use")  # the gold, which the reply equals
    page.until(f"Object.fromEntries({TILES})['upsilon-bleu'] !== {json.dumps(before['upsilon-bleu'])}")
    assert page.run("document.querySelector('#reference-0').classList.contains('dropped')")
    page.click("#reset-weights")
    page.until(f"Object.fromEntries({TILES})['upsilon-bleu'] === {json.dumps(before['upsilon-bleu'])}")
    slider = "document.querySelector('#reference-0 input[type=range]')"
    page.run(f"{slider}.value = '-1'; {slider}.dispatchEvent(new Event('input', {{bubbles: true}}))")
    page.until(f"Object.fromEntries({TILES})['upsilon-bleu'] !== {json.dumps(before['upsilon-bleu'])}")
    assert page.text("#reference-0 .weight b") == "−1.00"
    page.said[:] = [one for one in page.said if "422" not in one]  # all that is left may weigh less than 0


def test_settings_change_references_and_signatures(page: Any) -> None:
    filled(page)
    choose(page, "#setting-k", "3")
    page.until("document.querySelectorAll('.reference').length === 4")
    choose(page, "#setting-smooth", "none")
    page.until("document.querySelector('#scores-A [data-metric=upsilon-bleu]')?.title.includes('smooth:none')")
    assert "|k:3|" in page.run("document.querySelector('#scores-A [data-metric=upsilon-bleu]').title")


def test_a_link_shows_the_same_in_another_tab(browsed: Browsed, page: Any) -> None:
    filled(page)
    page.click("#add-reply")
    page.type("#reply-1", "the boats are blue")
    page.until("document.querySelectorAll('#scores-B .score').length === 4")
    page.click("#copy-link")
    link = page.until("document.querySelector('#share-text').textContent")
    assert "#p=" in link
    second = page.other_tab(link)
    second.look(1_280)
    second.click("#use-link")
    second.until("document.querySelectorAll('#scores-B .score').length === 4")
    assert second.run(TILES) == page.run(TILES)
    assert second.run("document.querySelector('#reply-1').value") == "the boats are blue"
    second.type("#reply-1", "another")  # a tab keeps its draft to itself
    assert page.run("document.querySelector('#reply-1').value") == "the boats are blue"
    assert second.said == []
    second.tell("Page.close")


@pytest.mark.parametrize("what", ["curl", "python", "command"])
def test_what_is_copied_names_item_and_metrics(page: Any, what: str) -> None:
    filled(page)
    page.click(f"#copy-{what}")
    text = page.until("document.querySelector('#share-text').textContent")
    for part in (UTTERANCE, GOLD, REPLY, "upsilon-bleu"):
        assert part in text
    if what == "python":
        compile(text, "copied", "exec")


def test_a_frozen_item_is_shown_from_its_set(browsed: Browsed, page: Any) -> None:
    filled(page)
    before = page.run(TILES)
    page.click("#freeze")
    link = page.until("document.querySelector('#share-text').textContent")
    sets = browsed.server.ask("GET", "/v1/reference-sets").json()["sets"]
    assert len(sets) == 1
    second = page.other_tab(link)
    second.click("#use-link")
    second.until(f"{TILES}.length === 4")
    assert sets[0]["id"] in second.text("#references-state")
    assert second.run(TILES) == before
    assert second.said == []
    second.tell("Page.close")


def test_a_wrong_metric_is_named_and_the_page_goes_on(page: Any) -> None:
    filled(page)
    choose(page, "#setting-more", "no-such-metric")
    page.until("document.querySelector('#score-problem').innerText.includes('no-such-metric')")
    assert "What helps" in page.text("#score-problem")
    choose(page, "#setting-more", "chrf")
    page.until(f"{TILES}.length === 5 && document.querySelector('#score-problem').innerText === ''")
    page.said[:] = [one for one in page.said if "422" not in one and "400" not in one]


def test_a_link_of_a_stranger_is_read_as_data_alone(browsed: Browsed, page: Any) -> None:
    for state in (
        "null",
        "[]",
        '{"turns": 5, "replies": {"a": 1}, "weights": {"x": 9}}',
        '{"turns": ["<img src=x onerror=window.hacked=1>"]}',
        "{",
    ):
        packed = page.run(f"btoa({json.dumps(state)}).replace(/=+$/, '')")
        page.go(f"{browsed.address}/healthz")
        page.go(f"{browsed.address}/#p={packed}")
        page.until("document.querySelector('#turn-0')")
        assert page.run("window.hacked === undefined")


def fragment(state: dict[str, Any]) -> str:
    """Return the fragment of a link that holds this state."""
    return "#p=" + base64.urlsafe_b64encode(json.dumps(state).encode()).decode().rstrip("=")


def follow(browsed: Browsed, page: Any, state: dict[str, Any]) -> None:
    """Open a link of a stranger."""
    page.go(f"{browsed.address}/healthz")
    page.run("sessionStorage.clear()")
    page.go(f"{browsed.address}/{fragment(state)}")
    page.until("document.querySelector('#setting-mode') && document.querySelector('#served b')")


def test_a_link_fills_the_form_and_sends_nothing_before_a_click(browsed: Browsed, page: Any) -> None:
    def sent() -> list[str]:
        return [
            address
            for address in page.asked
            if address.endswith(("/scores", "/references")) or "/reference-sets/" in address
        ]

    item = {"turns": [UTTERANCE], "gold": GOLD, "replies": [REPLY]}
    for state in ({**item, "set": "abcdef"}, item):
        follow(browsed, page, state)
        wait_until_quiet(page)
        assert page.run("document.querySelector('#reply-0').value") == REPLY
        page.type("#reply-0", REPLY + "!")
        page.type("#gold", GOLD)
        page.run("new Promise((done) => setTimeout(done, 600))")  # longer than typing is waited for
        assert sent() == []
        assert page.run("sessionStorage.getItem('refaug.playground')") is None
    page.type("#reply-0", REPLY)
    page.click("#use-link")
    until_tiles(page, scores_of(browsed, REPLY))
    assert sent() != []
    assert not page.run("document.querySelector('#from-link').checkVisibility()")
    page.asked.clear()
    page.run(f"location.hash = '{fragment({**item, 'replies': ['another']})}'")
    page.until("document.querySelector('#reply-0').value === 'another'")
    page.run("new Promise((done) => setTimeout(done, 600))")
    assert sent() == []


WORD = "a'b\"c $(touch hacked) `touch hacked` ${HOME} \\ ! * ~ ; & | < > # %\n--x"


def test_what_is_copied_for_a_shell_is_quoted(browsed: Browsed, page: Any, tmp_path: Path) -> None:
    metric = re.sub(r"[\s;]", "_", WORD)
    state = {
        "turns": [f"{UTTERANCE} {WORD}"], "gold": GOLD, "replies": [WORD, "\x9b31m\x7f"],
        "more": f"{metric} -m adem",
        "retrieval": {"k": "7", "weights": "one"},
        "metrics": {"smooth": metric + "\x03\x1b"},
    }  # fmt: skip
    follow(browsed, page, state)
    page.click("#use-link")
    page.until(
        "document.querySelectorAll('.reference').length === 8 && document.querySelector('#score-problem').innerText"
    )
    for name, program in (("command", "refaug"), ("curl", "curl")):
        page.click(f"#copy-{name}")
        page.until(f"document.querySelector('#share-text').textContent.includes('{program} ')")
        text = page.run("document.querySelector('#share-text').textContent")
        assert [character for character in text if not character.isprintable()] == ["\n"] * text.count("\n")
        script = f'{program}() {{ for word in "$@"; do printf "%s\\0" "$word"; done; }}\n{text}'
        ran = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=True, timeout=60)
        words = ran.stdout.decode().split("\0")[:-1]
        assert not (tmp_path / "hacked").exists()
        if name == "curl":
            item = json.loads(words[words.index("-d") + 1])["items"][0]
            assert words[:3] == ["-X", "POST", f"{browsed.address}/v1/scores"]
        else:
            item = json.loads((tmp_path / "items.jsonl").read_text())
            assert words[:2] == ["score", "items.jsonl"]
            for word in ("--reference-weights=one", "-k7", f"--metric={metric}"):
                assert word in words
            assert f"--metric=bleu:smooth={metric}" in words
            assert [word for word in words if word.startswith("-m")] == []
        assert item["utterance"] == f"{UTTERANCE} {WORD}"
        assert item["replies"] == {"A": WORD, "B": "\x9b31m\x7f"}
    page.said[:] = [line for line in page.said if "422" not in line and "400" not in line]  # of no such metric


def test_keyboard_alone_reaches_content_and_fields(page: Any) -> None:
    page.press("Tab", 9)
    assert page.run("document.activeElement.className") == "skip"
    order = []
    for _ in range(16):
        page.press("Tab", 9)
        order.append(page.run("document.activeElement.id || document.activeElement.textContent"))
    for name in ("Playground", "key-button", "example-select", "turn-0", "gold", "reply-0"):
        assert name in order, order
    assert order.index("turn-0") < order.index("gold") < order.index("reply-0")
    page.run("document.querySelector('#key-button').focus()")
    page.press("Enter", 13)
    page.run("document.querySelector('#key-button').click()") if not page.run(
        "document.querySelector('#key-dialog').open"
    ) else None
    assert page.run("document.querySelector('#key-dialog').open")
    page.press("Escape", 27)
    page.until("!document.querySelector('#key-dialog').open")


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_nothing_is_inaccessible_or_too_wide(page: Any, width: int, scheme: str) -> None:
    page.look(width, scheme=scheme)
    try:
        wait_until_quiet(page)
        assert accessibility_faults(page) == []
        filled(page, reply="x" * 300 + " " + REPLY)
        page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert accessibility_faults(page) == []
        assert overflow(page) == []
    finally:
        page.look(1_280)
