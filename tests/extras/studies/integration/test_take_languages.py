"""The participants' page in other languages.

A pseudo-language, in the place of Volapük, shows that every word of the page is in a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx2
import pytest
import uvicorn
from browser import Page
from page_scripts import SCRIPTS
from page_tests import Browsed, browsing, looks_right
from serving import listening, wait_until_ready
from studied import agree, press_button, press_key, say, study_home
from studying import add_bots, chat_protocol, new_study

from refaug.core.home import Settings
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app
from refaug.service.web.pages import static_files as module

pytestmark = [pytest.mark.machine, pytest.mark.slow]
BOTS = ("zebra", "quokka")
ACCENTS = str.maketrans("aceinosuyACEINOSUY", "áçéíñóšúýÁÇÉÍÑÓŠÚÝ")
# what a participant can read that is of the page, not of the study, a bot or themselves
UNTRANSLATED = """[...document.querySelectorAll('body *')]
  .filter((node) => node.checkVisibility({ visibilityProperty: true }))
  .filter((node) => !node.closest('.own-words, .questions, .message, bdi, script, style, select'))
  .flatMap((node) => [
    ...[...node.childNodes].filter((child) => child.nodeType === Node.TEXT_NODE).map((child) => child.data.trim()),
    ...['aria-label', 'title', 'placeholder'].map((name) => node.getAttribute(name) ?? ''),
  ])
  .filter((text) => /[a-z]/i.test(text) && !text.includes('⟦'))"""


def pseudo_words() -> dict[str, str]:
    """All words, legible, marked, and longer by a third, as those of many languages are."""
    english = dict(re.findall(r'^  (\w+): "(.*)",$', SCRIPTS["take/words.js"], flags=re.MULTILINE))
    words = dict[str, str]()
    for name, text in english.items():
        longer = [f"⟦{line}{'~' * (len(line) // 3)}⟧" for line in text.split("\\n")]
        parts = re.split(r"(\{\w+\})", "\n".join(longer))
        words[name] = "".join(part if part.startswith("{") else part.translate(ACCENTS) for part in parts)
    return words


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    folder = tmp_path_factory.mktemp("browser")
    with browsing(study_home(folder), folder, path="/healthz") as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service in this process that has the pseudo-language beside the languages of the package."""
    static, home = tmp_path_factory.mktemp("static"), study_home(tmp_path_factory.mktemp("home"))
    (static / "take/languages").mkdir(parents=True)
    (static / "take/languages/vo.json").write_text(json.dumps(pseudo_words()), "utf-8")
    folders = module.page_folders
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "page_folders", lambda name: (*folders(name), *([static] if name == "static" else [])))
        module.static_files.cache_clear()
        app = create_app(Settings(home=home), ServeSettings())
        with listening(uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))) as port:
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
                wait_until_ready(client)
                add_bots(client, *BOTS)
            yield f"http://127.0.0.1:{port}"
    module.static_files.cache_clear()


def device_of(browsed: Browsed, address: str, name: str, language: str) -> Page:
    """A browser of a participant's own at the first step of a study in a language."""
    with httpx2.Client(base_url=address) as client:
        protocol = chat_protocol(*BOTS, language=language, min_turns=1, skips=1, delay="none", per_participant=2)
        token = new_study(client, name, protocol)
    page = browsed.page.other_device(f"{address}/take#{token}")
    page.look(390)
    page.until("document.querySelector('#begin')")
    return page


def test_every_word_of_the_page_comes_from_the_file_of_its_language(browsed: Browsed, address: str) -> None:
    page = device_of(browsed, address, "pseudo", "vo")
    assert page.run("document.documentElement.lang") == "vo"
    assert page.run(UNTRANSLATED) == []
    looks_right(page)
    agree(page)
    assert page.run(UNTRANSLATED) == []
    press_button(page, "#start-task")
    say(page, "hello", 1)
    assert page.run(UNTRANSLATED) == []
    looks_right(page)
    press_button(page, "#close-chat")
    page.until("document.querySelector('#finish')")
    assert page.run(UNTRANSLATED) == []
    looks_right(page)
    for key in "12345":
        press_key(page, key)
    press_button(page, "#finish")
    page.until("document.querySelector('#start-task')")
    press_button(page, "#start-task")
    press_button(page, "#skip")
    page.until("document.querySelector('dialog[open]')")
    assert page.run(UNTRANSLATED) == []
    looks_right(page)
    assert page.said == []
    page.tell("Page.close")


def test_the_page_speaks_japanese(browsed: Browsed, address: str) -> None:
    page = device_of(browsed, address, "japanese", "ja")
    assert page.text("#begin") == "始める"
    assert page.run("document.documentElement.lang") == "ja"
    looks_right(page)
    assert page.said == []
    page.tell("Page.close")


def test_of_a_language_without_a_file_only_the_studys_own_words_are(browsed: Browsed, address: str) -> None:
    page = device_of(browsed, address, "finnish", "fi")
    assert (page.text("#begin"), page.run("document.documentElement.lang")) == ("Begin", "en")
    assert page.run("document.querySelector('.own-words').lang") == "fi"
    assert page.said == []
    page.tell("Page.close")
