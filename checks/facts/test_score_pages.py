"""The tables of the pages about scores are held to the code, and to computations by other programs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from math import exp, log, sqrt
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from acceptance.examples import ROOT, fences
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from refaug.cli.scores.metrics import REFERENCES
from refaug.cli.shared.item_inputs import AlignedOptions, ItemInputs, TableOptions
from refaug.core.home import Settings
from refaug.core.records import Item
from refaug.core.text.tokenizers import get_tokenizer
from refaug.metrics import base, single_reference
from refaug.metrics.base import Metric, Problem
from refaug.metrics.catalogue import METRICS
from refaug.metrics.embeddings import encoder_metrics, word_vector_metrics
from refaug.metrics.metric_info import CorpusScore, Uses
from refaug.metrics.specification import build
from refaug.metrics.words import cider
from refaug.scoring import cases
from refaug.scoring.evaluate import evaluate
from refaug.scoring.items import parse_item
from refaug.scoring.score_files.score_document import details_of
from refaug.scoring.score_files.score_file import sealed
from refaug.scoring.settings import ScoreSettings
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app
from refaug.tables.columns import KNOWN_COLUMNS
from refaug.tables.table_request import FIELDS

DOCS = ROOT / "docs"


# ── tables of the pages ───────────────────────────────────────────────────────────────────────────────────────────


@cache
def text_of(page: str) -> str:
    return (DOCS / f"{page}.md").read_text("utf-8")


def tables(page: str, heading: str) -> list[list[list[str]]]:
    """The bodies of the tables between a heading and the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#+ |\Z)", text_of(page), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page}.md has no section {heading!r}"
    bodies = re.findall(r"^\|[^\n]*\|\n\|[-| ]+\|\n((?:\|[^\n]*\|\n?)*)", found[1], re.MULTILINE)
    return [[cells(line) for line in body.splitlines()] for body in bodies]


def cells(line: str) -> list[str]:
    unescaped = (cell.strip().replace(r"\|", "|").replace(r"\<", "<") for cell in re.split(r"(?<!\\)\|", line)[1:-1])
    return list(unescaped)


def codes(cell: str) -> list[str]:
    """Everything in a cell that is inline code."""
    return re.findall(r"`([^`]+)`", cell)


def file_of(page: str, name: str) -> str:
    """A file that the page shows."""
    return next(fence.text for fence in fences(text_of(page)) if fence.role == "file" and fence.name == name)


# ── items.md ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_field_of_an_item_and_of_a_reference_is_on_the_page() -> None:
    fields, references = tables("items", "The fields")[0], tables("items", "References")[0]
    everything: dict[str, Any] = {
        "id": 7, "turns": ["Tea?"], "references": ["Yes."], "replies": {"new": "No."}, "ratings": {"new": [3, None]},
        "scale": [1, 5], "dialogue": "d", "time": "2027-06-01", "exclude": ["e"],
        "provenance": "k:15|mode:embedding-utterance", "reply_provenance": {"new": "kind:retrieval|k:1"},
        "reply_ms": {"new": 12.5},
    }  # fmt: skip
    assert {codes(row[0])[0] for row in fields} == {*everything, "utterance"}
    assert isinstance(parse_item(everything, where="page", line=1, fallback_id="1"), Item)
    of_one: dict[str, Any] = {
        "text": "Yes.",
        "ratings": [4],
        "scale": [1, 7],
        "rating": 0.5,
        "similarity": 0.9,
        "unused": False,
        "source": "retrieved",
    }
    assert {codes(row[0])[0] for row in references} == {*of_one, "weight"} - {"text"}
    item = parse_item({"references": [of_one]}, where="page", line=1, fallback_id="1")
    assert isinstance(item, Item)
    assert item.references[0].more == {}


def test_steps_of_a_rating_become_the_weights_that_the_page_names() -> None:
    said = re.search(r"On the usual five steps, (.*?)\.\n", text_of("items"))
    assert said is not None
    weights = {int(step): float(weight) for step, weight in re.findall(r"(\d) is (-?[\d.]+\d|-?\d)", said[1])}
    found = {}
    for step in range(1, 6):
        values = {"references": [{"text": "Yes.", "ratings": [step]}]}
        item = parse_item(values, where="page", line=1, fallback_id="1")
        assert isinstance(item, Item)
        found[step] = item.references[0].weight
    assert found == weights


def test_the_page_lists_every_key_of_the_json_output() -> None:
    listed = {key for row in tables("items", "The output of `--json`")[0] for key in codes(row[0])}
    components = create_app(Settings(), ServeSettings()).openapi()["components"]["schemas"]
    answered = paths_of_schema(components["ScoresOut"], components)
    printed = key_paths(a_full_output())
    assert with_parents(listed) <= printed
    assert printed - answered <= with_parents(listed)


def paths_of_schema(schema: dict[str, Any], components: dict[str, Any], path: str = "") -> set[str]:
    """`scores[].systems.NAME.corpus` for every field of a schema of the API."""
    if "$ref" in schema:
        return paths_of_schema(components[schema["$ref"].rpartition("/")[2]], components, path)
    found = {path} if path else set[str]()
    for kind in schema.get("anyOf", ()):
        found |= paths_of_schema(kind, components, path)
    for name, inner in schema.get("properties", {}).items():
        found |= paths_of_schema(inner, components, f"{path}.{name}".lstrip("."))
    if isinstance(schema.get("additionalProperties"), dict):
        stands_for = "ID" if path == "evidence" else "NAME"
        found |= paths_of_schema(schema["additionalProperties"], components, f"{path}.{stands_for}")
    if "items" in schema:
        found |= paths_of_schema(schema["items"], components, f"{path}[]")
    return found


def a_full_output() -> dict[str, Any]:
    """Everything that an output can have: intervals and none, problems of all kinds, evidence, explanations."""
    weighted = [{"text": "No thanks.", "weight": 0.5}]
    items: list[dict[str, Any]] = [
        {"id": "tea", "references": ["Yes, please.", *weighted], "replies": {"old": "No thanks.", "new": "Yes."}},
        {"id": "bus", "utterance": "Later?", "references": [], "replies": {"old": "Later.", "new": "Now."}},
        {"id": "key", "references": "On the hook."},
    ]
    read = [parse_item(one, where="page", line=n, fallback_id=str(n)) for n, one in enumerate(items, start=1)]
    metrics = [build(name) for name in ("delta-bleu", "upsilon-bleu")]
    evaluation = evaluate(read, metrics, ScoreSettings(draws=10, baseline="old", explain=True))
    scores = {**evaluation.as_json(), "details": details_of(evaluation, read)}
    lines = AlignedOptions(replies={"a": "a.txt"}, references=("b.txt",), weights=("c.txt",), utterances="d.txt")
    table = TableOptions(map=("id=a",), shape="reply", encoding="latin-1")
    inputs = ItemInputs(items=Path("items.jsonl"), aligned=lines, table=table, allow_truncated=True, systems=["new"])
    return sealed({**scores, "inputs": inputs.names})


OPAQUE = (
    ".parts",
    ".unscored_by_reason",
    ".sources",
    "details.items[]",
)  # their keys are the metric's, codes and sources
NAMES = (".systems", ".comparisons", "evidence", "copies")


def key_paths(value: Any, path: str = "") -> set[str]:
    """`scores[].systems.NAME.corpus` for every key of a JSON value."""
    if isinstance(value, dict) and not path.endswith(OPAQUE):
        stands_for = "ID" if path == "evidence" else "NAME" if path.endswith(NAMES) else None
        inner = {f"{path}.{stands_for or key}".lstrip("."): one for key, one in value.items()}
        return set().union(*({at} | key_paths(one, at) for at, one in inner.items()))
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return set().union({f"{path}[]"}, *(key_paths(one, f"{path}[]") for one in value))
    return set()


def with_parents(paths: set[str]) -> set[str]:
    """A key that the table has no row for, since all that is in it has one."""
    found = set(paths)
    for path in paths:
        steps = path.split(".")
        parents = {".".join(steps[:length]) for length in range(1, len(steps))}
        found |= parents | {parent.removesuffix("[]") for parent in parents} | {path.removesuffix("[]")}
    return found


# ── scores.md ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_has_every_reason_for_which_a_reply_has_no_score() -> None:
    listed = {(codes(row[0])[0], codes(row[1])[0]) for row in tables("reference/metrics", "Replies without a score")[0]}
    modules = (base, cider, word_vector_metrics, encoder_metrics, cases, single_reference)
    known = {(one.code, one.message) for module in modules for one in problems_in(module)}
    undefined = Metric.undefined(build("chrf"))
    assert listed == known | {(undefined.code, undefined.message.replace("chrf", "…"))}


def problems_in(module: ModuleType) -> list[Problem]:
    return [value for value in vars(module).values() if isinstance(value, Problem)]


class AsSacrebleu:
    """Three replies, scored by refaug and by sacrebleu."""

    replies = (
        "It leaves in ten minutes, I think.",
        "I have put the key under the mat.",
        "Would you like it with milk?",
    )
    references = ("It leaves in ten minutes.", "The key is under the mat.", "Do you take milk?")

    def refaug(self, specification: str) -> tuple[float, list[float]]:
        """Corpus score and reply scores."""
        items = [
            parse_item({"references": [reference], "replies": {"new": reply}}, where="page", line=n, fallback_id=str(n))
            for n, (reference, reply) in enumerate(zip(self.references, self.replies, strict=True))
        ]
        found = evaluate(items, [build(specification)], ScoreSettings(draws=0)).scores[0].systems["new"]
        values = [score for score in found.each_score() if score is not None]
        assert found.corpus is not None
        return found.corpus, values


THEIRS = {
    "sacrebleu ref -i hyp": BLEU(),
    "… -lc": BLEU(lowercase=True),
    "… --tokenize intl": BLEU(tokenize="intl"),
    "… --smooth-method add-k --smooth-value 2": BLEU(smooth_method="add-k", smooth_value=2),
    "… --sentence-level": BLEU(effective_order=True),
    "… --metrics chrf": CHRF(),
    "… --metrics chrf --chrf-word-order 2": CHRF(word_order=2),
    "… --metrics ter": TER(),
}


def test_the_rows_about_sacrebleu_are_the_ones_that_are_tested() -> None:
    assert [codes(row[0])[0] for row in tables("coming-from", "From sacrebleu")[0]] == list(THEIRS)


@pytest.mark.parametrize("row", tables("coming-from", "From sacrebleu")[0], ids=lambda row: str(row[0]))
def test_a_row_about_sacrebleu_gives_its_number(row: list[str]) -> None:
    both, metric = AsSacrebleu(), THEIRS[codes(row[0])[0]]
    of_replies = codes(row[1])[0] == "--level reply"
    first = codes(tables("coming-from", "From sacrebleu")[0][0][1])[0]
    specification = re.findall(r"--metric (\S+)", first if of_replies else row[1].strip("`"))[0].rstrip("`,")
    corpus, replies = both.refaug(specification)
    if of_replies:
        pairs = zip(both.replies, both.references, strict=True)
        expected = [metric.sentence_score(reply, [reference]).score / 100 for reply, reference in pairs]
        assert replies == pytest.approx(expected, abs=1e-11)
    else:
        assert corpus == pytest.approx(metric.corpus_score(both.replies, [both.references]).score / 100, abs=1e-11)


@pytest.mark.parametrize(
    "row", tables("coming-from", "Its corpus scores by `refaug score`")[0], ids=lambda row: str(row[0])
)
def test_a_row_about_nlg_eval_gives_its_number(row: list[str]) -> None:
    both, name = AsSacrebleu(), codes(row[0])[0]
    specification = codes(row[1])[0].removeprefix("--metric ")
    word = get_tokenizer("word")
    replies, references = (word.tokenize_batch(texts) for texts in (both.replies, both.references))
    if name == "CIDEr":
        expected = coco_cider(replies, references)
    else:
        expected = coco_bleu(replies, references, int(name.removeprefix("Bleu_")))
    assert both.refaug(specification)[0] == pytest.approx(expected, abs=1e-8)


def grams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[at : at + n]) for at in range(len(tokens) - n + 1))


def coco_bleu(replies: Sequence[list[str]], references: Sequence[list[str]], order: int) -> float:
    """Corpus BLEU of one reference each, with 1e-15 above and 1e-9 below the line."""
    product = 1.0
    for n in range(1, order + 1):
        matched = sum((grams(reply, n) & grams(one, n)).total() for reply, one in zip(replies, references, strict=True))
        product *= (matched + 1e-15) / (sum(grams(reply, n).total() for reply in replies) + 1e-9)
    ratio = (sum(map(len, replies)) + 1e-15) / (sum(map(len, references)) + 1e-9)
    return float(product ** (1 / order) * (exp(1 - 1 / ratio) if ratio < 1 else 1.0))


def coco_cider(replies: Sequence[list[str]], references: Sequence[list[str]]) -> float:
    """The mean CIDEr-D of one reference each, sigma 6, up to four words."""
    frequency = Counter(gram for one in references for n in range(1, 5) for gram in grams(one, n))
    assert len(references) > 1
    documents = {gram: sum(gram in grams(one, len(gram)) for one in references) for gram in frequency}

    def weights(tokens: Sequence[str], n: int) -> dict[tuple[str, ...], float]:
        idf = {gram: log(len(references)) - log(max(1, documents.get(gram, 0))) for gram in grams(tokens, n)}
        return {gram: count * idf[gram] for gram, count in grams(tokens, n).items()}

    total = 0.0
    for reply, one in zip(replies, references, strict=True):
        for n in range(1, 5):
            c, r = weights(reply, n), weights(one, n)
            norm = sqrt(sum(x * x for x in c.values()) * sum(x * x for x in r.values()))
            if norm:
                cosine = sum(min(c[gram], r[gram]) * r[gram] for gram in c.keys() & r.keys()) / norm
                total += 10 / 4 * cosine * exp(-((len(reply) - len(one)) ** 2) / 72)
    return total / len(replies)


# ── bleu.md, levels.md ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_bleu_page_has_every_part_and_every_choice() -> None:
    metric = build("delta-bleu")
    prepared = metric.prepare([base.References.unweighted(["a b"])])
    sums = metric.statistics(["a b"], prepared, np.zeros(1, np.int64), np.zeros(1, np.int64))[0]
    assert [codes(row[0])[0] for row in tables("bleu", "The formula")[0]] == list(metric.parts(sums, base.Level.REPLY))
    info = METRICS["delta-bleu"]
    for key, heading in {"variant": "Which variant", "bp": "Which brevity penalty"}.items():
        choices = getattr(info.parameter(key), "choices")  # noqa: B009  not every parameter has them
        assert [codes(row[0])[0] for row in tables("bleu", heading)[0]] == list(choices)
    for row in tables("bleu", "Which brevity penalty")[0]:
        having = [name for name in METRICS if row_has(name, codes(row[0])[0])]
        assert having == (codes(row[2]) or ["bleu", "multi-bleu", "delta-bleu", "upsilon-bleu"])


def row_has(metric: str, choice: str) -> bool:
    return choice in getattr(METRICS[metric].parameter("bp"), "choices", ())


VARIANTS = [codes(row[0])[0] for row in tables("bleu", "Which variant")[0]]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_worked_out_by_hand_is_what_is_computed(variant: str) -> None:
    by_hand = {row[0]: row[1 + VARIANTS.index(variant)] for row in tables("internals/bleu", "The variants by hand")[0]}
    item = parse_item(json.loads(file_of("internals/bleu", "variants.jsonl")), where="page", line=1, fallback_id="1")
    found = evaluate([item], [build(_with_add_k(variant))], ScoreSettings(draws=0)).scores[0].systems["new"]
    (reply,) = found.each_reply(with_parts=True)
    parts, score = reply["parts"], reply["score"]
    assert parts["credit"] == pytest.approx([float(by_hand["credit of words"]), 1.3])
    assert parts["precisions"] == pytest.approx([last_number(by_hand[f"p_{n}"]) for n in (1, 2)], abs=5.1e-5)
    assert score == pytest.approx(float(by_hand["score, the root of their product"]), abs=5e-5)


def _with_add_k(variant: str) -> str:
    smooth = "" if variant == "tsuta20" else ",smooth=add-k"
    return f"delta-bleu:variant={variant}{smooth}"


def last_number(cell: str) -> float:
    return float(re.findall(r"[\d.]+", cell)[-1])


def test_levels_page_names_the_source_of_every_metrics_corpus_score() -> None:
    listed = {codes(row[0])[0]: codes(row[1]) for row in tables("reference/metrics", "Corpus scores")[0]}
    assert listed == {
        corpus.value: [name for name, info in METRICS.items() if info.corpus is corpus] for corpus in CorpusScore
    }


# ── upsilon.md, metrics.md ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("row", tables("upsilon", "A worked example")[1], ids=lambda row: str(row[0]))
def test_an_aggregation_worked_out_by_hand_is_what_is_computed(row: list[str]) -> None:
    item = parse_item(json.loads(file_of("upsilon", "shop.jsonl")), where="page", line=1, fallback_id="1")
    specification = ":".join(["upsilon-rouge-1", *codes(row[0])])
    found = evaluate([item], [build(specification)], ScoreSettings(draws=0)).scores[0].systems["new"]
    assert found.corpus == pytest.approx(float(row[2]), abs=5e-5)


def test_the_page_has_every_aggregation() -> None:
    choices = getattr(METRICS["upsilon-chrf"].parameter("agg"), "choices", ())
    assert tuple(codes(row[0])[0] for row in tables("upsilon", "The formula")[0]) == choices


def test_the_catalogue_has_every_metric_as_the_register_has_it() -> None:
    weighted = [name for name in METRICS if name.startswith("upsilon-") and name != "upsilon-bleu"]
    (catalogue,), (sources,) = tables("reference/metrics", "All metrics"), tables("reference/metrics", "Sources")
    assert catalogue == [
        [f"`{name}`", info.summary, f"`{info.uses}`", info.range, info.direction, ", ".join(info.needs)]
        for name, info in METRICS.items()
        if name not in weighted
    ]
    first, last = (list(METRICS).index(name) for name in ("rouge-1", "sentence-cosine"))
    assert weighted == [f"upsilon-{name}" for name in list(METRICS)[first : last + 1] if name != "cider"]
    ours = [name for name, info in METRICS.items() if info.paper.startswith("ours")]
    assert sources == [[f"`{name}`", info.paper] for name, info in METRICS.items() if name not in ours]
    assert ours == ["refaug-1", *weighted]


def test_the_catalogue_says_which_references_each_choice_is() -> None:
    listed = {codes(row[0])[0]: row[1] for row in tables("metrics", "Which references a metric looks at")[0]}
    assert listed == {uses.value: REFERENCES[uses.value] for uses in Uses}


def test_catalogue_has_every_parameter_of_every_metric_with_its_default() -> None:
    listed = {
        (name, codes(row[0])[0]): (row[1], "".join(codes(row[2])), row[4])
        for row in tables("reference/metrics", "Parameters")[0]
        for name in codes(row[3]) or ["upsilon"]
    }
    assert listed == dict(parameters())


def parameters() -> Iterator[tuple[tuple[str, str], tuple[str, str, str]]]:
    """Metric and key, and what there is to say; what all forms of υ have in common once."""
    for name, info in METRICS.items():
        stem = name.removeprefix("upsilon-")
        inherited = METRICS[stem].parameters if stem in METRICS and stem not in (name, "bleu") else ()
        if inherited:
            dropped = {one.name for one in inherited if one not in info.parameters}
            assert dropped <= {"refs", "multi"}
        for one in info.parameters:
            if one not in inherited:
                yield ("upsilon" if inherited else name, one.name), (one.allowed, one.default, one.help)


# ── the defaults, as they were measured ───────────────────────────────────────────────────────────────────────────


def figures_in(cell: str) -> list[float]:
    return [float(number) for number in re.findall(r"[-+]?\.\d+", cell)]


@cache
def measured_defaults() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ROOT / "bench" / "results" / "bleu_defaults.json").read_text("utf-8"))
    return document


def as_figures(estimate: dict[str, float]) -> list[float]:
    return [round(estimate[key], 3) for key in ("value", "low", "high")]


def test_the_table_of_parrots_has_the_figures_of_the_benchmark() -> None:
    (rows,) = tables("internals/gaming", "Why the utterance is no reference by default")
    assert {"add-k, rated", "exp, off"} < {row[0] for row in rows}
    for name, *groups, difference in rows:
        expected = measured_defaults()["parrot"][name]
        points = [expected["groups"][group]["value"] for group in ("DailyDialog", "EmpatheticDialogues", "mean")]
        assert [number for cell in groups for number in figures_in(cell)] == pytest.approx(points, abs=5.1e-4)
        lost = figures_in(difference)
        assert lost == ([] if name == "add-k, rated" else pytest.approx(as_figures(expected["less_before"]["mean"])))
        assert name != "exp, off" or lost[0] > -0.01  # what a default may cost in agreement with people


def test_the_rules_against_constants_are_as_measured() -> None:
    measured = json.loads((ROOT / "bench" / "results" / "gaming_rules.json").read_text("utf-8"))
    rows = tables("internals/gaming", "Rules that were tried against constants")[0]

    def changed(rule: str, kind: str) -> str:
        less = measured["agreement"][rule][kind]["mean"]["less_none"]
        value, low, high = (f"{less[name]:+.3f}".replace("0.", ".") for name in ("value", "low", "high"))
        return "" if rule == "none" else f"{value} [{low}, {high}]"

    assert rows == [
        [
            text,
            *(f"{measured['constants'][rule][name]:.2f}" for name in ("searched", "best_of_constants", "salad")),
            *(changed(rule, kind) for kind in ("spearman", "partial-spearman")),
        ]
        for rule, text in measured["rules"].items()
    ]
    held = measured["constants"]["content, half"]
    assert max(held["searched"], held["best_of_constants"], held["salad"], held["fixed"]) < 0.5
    assert all(float(row[1]) > 0.5 for row in rows if "content" not in row[0] and "such a word" not in row[0])


@cache
def measured_exploits() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ROOT / "bench" / "results" / "gaming.json").read_text("utf-8"))["metrics"]
    return document


def shares_of(row: dict[str, float]) -> list[float]:
    """The share of the human-like replies by corpus score and by mean; one where they are the same."""
    both = [row["corpus_share"], row["mean_share"]]
    return [round(share, 2) for share in (both[:1] if abs(both[0] - both[1]) < 5e-4 else both)]


def test_the_table_of_exploits_has_the_figures_of_the_benchmark() -> None:
    rows = tables("internals/gaming", "The cheapest replies, looked for by machine")[0]
    assert len(rows) == 14
    for name, *shown in rows[1:]:
        kind = "probe" if name in ("echo", "shuffled", "padded", "repeated") else "exploit"
        key = f"{kind}: {'parrot' if name == 'echo' else name}"
        for cell, measured in zip(shown, measured_exploits().values(), strict=True):
            assert [float(number) for number in cell.split(" / ")] == shares_of(measured["rows"][key]), (name, cell)


def test_by_default_no_echo_salad_or_constant_pays_in_upsilon_bleu() -> None:
    gold, weighted = (measured_exploits()[name]["rows"] for name in ("BLEU, gold", "υBLEU"))
    for level in ("corpus_share", "mean_share"):
        assert weighted["probe: parrot"][level] <= gold["probe: parrot"][level]
        assert weighted["exploit: salad"][level] <= 0.5
        constants = [
            row[level] for name, row in weighted.items() if name.startswith("exploit: ") and name.endswith(".")
        ]
        assert len(constants) == 5
        assert max(constants) <= 0.5


def test_the_page_of_tables_names_every_field_and_every_name_that_is_recognised() -> None:
    rows = tables("tables", "Fields")[0]
    names = {code.partition(":")[0] for row in rows for code in codes(row[0])}
    assert names == set(FIELDS)
    for row in rows:
        field = codes(row[0])[0]
        assert [name for name in KNOWN_COLUMNS.get(field, ()) if f"`{name}`" not in row[2]] == []
