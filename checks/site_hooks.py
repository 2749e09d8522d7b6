"""What the site needs beside the settings of mkdocs: contents from the index, no links out of docs/, plain fences."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from pymdownx.slugs import slugify  # type: ignore[import-not-found]  # of the environment of the site

_LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)#\s]*)(?:#[^)]*)?\)")
_ROW: Final = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\) \|", re.MULTILINE)
_FENCE: Final = re.compile(r"^```(\S+) (?:file|make|shows|exits|in|demo|workflow)=\S+$", re.MULTILINE)
_RESULT: Final = re.compile(r"\[([^\]]+)\]\((results/[a-z-]+\.md)\)")


def on_config(config: Any) -> Any:
    """Make the contents of the site from the tables of docs/index.md, a part for each kind of page."""
    text = (Path(config.docs_dir) / "index.md").read_text("utf-8")
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
    nav: list[dict[str, Any]] = [{"refaug": "index.md"}]
    for title, tables in zip(parts[::2], parts[1::2], strict=True):
        nav.append({title: [{name: page} for name, page in _ROW.findall(tables)]})
    nav.append({"Results": [{name: page} for name, page in _RESULT.findall(text.split("The results in full", 1)[1])]})
    config.nav = nav
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")  # as the anchors of the pages are written
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return a page in which a link that leaves docs/ is the name of a file, and fences have their language alone.

    A block that is a file of an example has its name as the title.
    """
    docs, folder = Path(config.docs_dir), (Path(config.docs_dir) / page.file.src_uri).parent

    def named(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(docs):
            return link[0]
        name, shown = str(target.relative_to(docs.parent)), link[1].strip("`")
        return f"`{name}`" if shown in (name, target.name) else f"{link[1]} (`{name}`)"

    titled = re.sub(r"^```(\S+) file=(\S+)$", r'```\1 title="\2"', _LINK.sub(named, markdown), flags=re.MULTILINE)
    return _FENCE.sub(r"```\1", titled)
