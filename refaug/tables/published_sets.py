"""Published sets by name: which files hold them, how these are laid out, and the facts about each.

No text of a set is part of this package. A reader takes the folder or the archive that the authors publish and yields
rated replies, which become items, or dialogues. `seen` says what a layout was learnt from; a set whose layout could not
be seen has no reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from refaug.core.errors import Usage
from refaug.tables import published_files as readers
from refaug.tables.published_files import RatedReply, Reader, SetChoice, SetFiles, SetKind

# ── The sets ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_UNSTATED: Final = "none stated"
_GOLDS_RATED: Final = "replies that are the gold itself are rated too; they are no fair rows"
_NO_REFERENCES: Final = "no references: every row is fair, and metrics that need a gold have no score"
_ALL_FAIR: Final = "no gold is rated: every row is fair"


@dataclass(frozen=True, kw_only=True)
class PublishedSet:
    """The facts about a set, and how it is read."""

    name: str
    kind: SetKind
    paper: str
    files: tuple[str, ...]
    layout: str
    seen: str
    licence: str = _UNSTATED
    may_share: bool = False  # whether the licence allows the texts to be passed on
    read: Reader | None = None
    parts: Mapping[str, str] = field(default_factory=dict)  # name of a part → what its files are called
    open_parts: str = ""  # what a part is called, where any file may be one
    quality: str = ""  # whose ratings count, where there are several
    scale: tuple[float, float] | None = None
    fair: str = ""  # which rows are fair
    faults: tuple[str, ...] = ()

    def require_reader(self) -> Reader:
        """Return the reader; Usage where the layout was never seen."""
        if self.read is None:
            raise Usage(
                f"{self.name}: its layout could not be seen, so it has no reader",
                remedy="refaug sets convert FILE --map …, or a reader of your own: entry point refaug.readers",
            )
        return self.read

    def choice(self, part: str, quality: str | None) -> SetChoice:
        """Return a choice of part and quality; Usage where there is no such part."""
        name, _, column = part.partition(":")
        if self.parts and name not in self.parts:
            raise Usage(f"{self.name} has no part {name!r}", remedy=f"{self.name}:PART, one of {', '.join(self.parts)}")
        if self.open_parts and not name:
            raise Usage(f"{self.name} has several parts", remedy=f"{self.name}:PART, where PART is {self.open_parts}")
        if name and not (self.parts or self.open_parts):
            raise Usage(f"{self.name} has no parts", remedy=self.name)
        if quality and not self.quality:
            raise Usage(f"{self.name} has ratings of one quality", remedy="leave --quality out")
        return SetChoice(part=self.parts.get(name, name), column=column, quality=quality or self.quality)

    def as_json(self) -> dict[str, object]:
        """Return the facts as JSON."""
        return {
            "name": self.name,
            "kind": self.kind.value,
            "parts": list(self.parts) or self.open_parts or None,
            "paper": self.paper,
            "files": list(self.files),
            "layout": self.layout,
            "layout_seen_in": self.seen,
            "readable": self.read is not None,
            "quality": self.quality or None,
            "scale": self.scale and list(self.scale),
            "fair_rows": self.fair or None,
            "faults": list(self.faults),
            "licence": self.licence,
            "may_be_shared": self.may_share,
        }


_TABLE: Final = (
    PublishedSet(
        name="usr",
        kind=SetKind.RATED,
        paper="Mehri and Eskenazi 2020, USR, ACL",
        parts={"topicalchat": "tc", "personachat": "pc"},
        files=("tc_usr_data.json", "pc_usr_data.json"),
        layout="a list of {context, fact, responses: [{model, response, Overall: [ratings], …}]}",
        seen="programs that read it",
        read=readers.read_usr,
        quality="Overall",
        scale=(1, 5),
        fair=_GOLDS_RATED,
        faults=("Original Ground Truth is the gold: a sixth of the rows, and most metrics' best",),
    ),
    PublishedSet(
        name="fed",
        kind=SetKind.RATED,
        paper="Mehri and Eskenazi 2020, Unsupervised Evaluation of Interactive Dialog with DialoGPT, SIGDIAL",
        files=("fed_data.json",),
        layout="a list of {context, response, system, annotations: {Overall: [ratings], …}}",
        seen="programs that read it",
        read=readers.read_fed,
        quality="Overall",
        scale=(0, 4),
        fair=_NO_REFERENCES,
        faults=("entries without a response rate whole conversations and are left out",),
    ),
    PublishedSet(
        name="grade",
        kind=SetKind.RATED,
        paper="Huang et al. 2020, GRADE, EMNLP",
        parts={name: name for name in ("dailydialog", "empatheticdialogues", "convai2")},
        files=("human_ctx.txt", "human_hyp.txt", "human_ref.txt", "human_score.txt", "human_judgement.json"),
        layout="eval_data/CORPUS/SYSTEM and human_score/CORPUS/SYSTEM, line by line; turns are set apart by |||",
        seen="the repository",
        read=readers.read_grade,
        scale=(1, 5),
        fair=_ALL_FAIR,
        faults=("contexts of two turns; the systems share contexts", "the same test set as gupta, zhao and pang"),
    ),
    PublishedSet(
        name="zhao",
        kind=SetKind.RATED,
        paper="Zhao, Lala and Kawahara 2020, Designing Precise and Robust Dialogue Response Evaluators, ACL",
        parts={"dailydialog": "[Dd]aily", "personachat": "[Pp]ersona"},
        files=("*daily*.json", "*persona*.json"),
        layout="{dialogue: {context: [[speaker, text]], reference: […], responses: {system: {uttr, scores}}}}",
        seen="programs that read it",
        read=readers.read_zhao,
        quality="overall",
        scale=(1, 5),
        fair=_GOLDS_RATED,
        faults=("negative-sample is a drawn turn: report with and without it", "the gold stands among the replies"),
    ),
    PublishedSet(
        name="gupta",
        kind=SetKind.RATED,
        paper="Gupta et al. 2019, Investigating Evaluation of Open-Domain Dialogue Systems, SIGDIAL",
        files=("mturk_rating_processed_output.csv",),
        layout="CSV with model, human_average_rating, response, all_references (tabs between), context (|||| between)",
        seen="the repository",
        read=readers.read_gupta,
        scale=(1, 5),
        fair=_ALL_FAIR,
        faults=("the mean rating alone", "replies of dualencoder_train are turns of DailyDialog's training set"),
    ),
    PublishedSet(
        name="humod",
        kind=SetKind.RATED,
        paper="Merdivan et al. 2020, Human Annotated Dialogues Dataset for Natural Conversational Agents",
        files=("HUMOD_Dataset.TXT",),
        layout="tabs between columns, with Reply, Label, User Relevance Score and User Reply among them; "
        "three rows rate a reply",
        seen="its README, and programs that read it",
        read=readers.read_humod,
        scale=(1, 5),
        fair="references are replies by the raters; a rated reply that equals one of them is no fair row",
        faults=("four lines lack a tab", "one of two replies was drawn at random, which alone explains most ratings"),
    ),
    PublishedSet(
        name="pang",
        kind=SetKind.RATED,
        paper="Pang et al. 2020, Towards Holistic and Automatic Evaluation of Open-Domain Dialogue Generation, ACL",
        files=("context_data_release.csv",),
        layout="CSV without a header: number, context, reply, ten ratings",
        seen="the repository",
        read=readers.read_pang,
        scale=(1, 5),
        fair=_NO_REFERENCES,
        faults=("one turn of context, one system",),
    ),
    PublishedSet(
        name="dstc9",
        kind=SetKind.RATED,
        paper="Gunasekara et al. 2020, Overview of the Ninth Dialog System Technology Challenge, track 3",
        files=("*.json",),
        layout="a file a system: a list of {context, human (overall), …}, several of one conversation in a row",
        seen="a copy in a repository of a metric",
        read=readers.read_dstc9,
        quality="human (overall)",
        scale=(1, 5),
        fair=_NO_REFERENCES,
        faults=("a rating is of the whole conversation, and is given here to its last reply",),
    ),
    PublishedSet(
        name="dstc10",
        kind=SetKind.RATED,
        paper="Zhang et al. 2021, Automatic Evaluation and Moderation of Open-domain Dialogue Systems, track 5",
        open_parts="the name of a file before _eval.json",
        files=("*_eval.json",),
        layout="a list of {dialogue_id, model, context, response, reference: […], annotations: {quality: [ratings]}}",
        seen="its README alone",
        read=readers.read_dstc10,
        quality="Overall",
        fair=_GOLDS_RATED,
        faults=("copies of other sets: never count both", "parts without Overall need --quality"),
    ),
    PublishedSet(
        name="dstc11",
        kind=SetKind.LOG,
        paper="Rodríguez-Cantelar et al. 2023, Robust and Multilingual Evaluation Metrics at DSTC 11, track 4",
        open_parts="the name of a file before _multilingual_, and :translation for the other language",
        files=("*_multilingual_*.csv",),
        layout="CSV with UID (corpus-dialogue-turn), SID, SEG and TRANSLATION",
        seen="its README alone",
        licence="Apache-2.0, and those of the sources",
        read=readers.read_dstc11,
        faults=("where the ratings lie could not be seen: dialogues alone are read",),
    ),
    PublishedSet(
        name="dstc12",
        kind=SetKind.RATED,
        paper="Mendonça et al. 2025, Dialog System Evaluation: Dimensionality, Language, Culture and Safety, track 1",
        files=(),
        layout="",
        seen="nowhere",
        faults=("it rates whole conversations",),
    ),
    PublishedSet(
        name="conture",
        kind=SetKind.RATED,
        paper="Ghazarian et al. 2022, What is wrong with you?, IWSDS",
        files=("data.json",),
        layout="a list of {dialog_id, turns: [{user, chatbot, overall impression}]}",
        seen="the repository",
        licence="CC BY 4.0",
        may_share=True,
        read=readers.read_conture,
        scale=(0, 2),
        fair=_NO_REFERENCES,
        faults=("one number a reply, the majority of three", "the ten bots are not named"),
    ),
    PublishedSet(
        name="xdial-eval",
        kind=SetKind.RATED,
        paper="Zhang et al. 2023, xDial-Eval, Findings of EMNLP",
        open_parts="the name of a file of data/turn before .csv, and :LANGUAGE, english without it",
        files=("turn/*.csv",),
        layout="CSV with LANGUAGE_ctx (lines between turns), LANGUAGE_res and ratings",
        seen="the repository",
        licence="GPL-3.0 of the repository, and those of the sources",
        read=readers.read_xdial,
        fair="no references are given: nothing marks the rows that rate a gold",
        faults=("copies of other sets: never count both", "translated by machine", "the mean rating alone"),
    ),
    PublishedSet(
        name="rade",
        kind=SetKind.RATED,
        paper="Shi et al. 2023, RADE: Reference-Assisted Dialogue Evaluation, ACL",
        parts={name: name for name in ("chitchat", "emotion", "persona")},
        files=("PART/data.jsonl",),
        layout="JSON lines of {context, output, reference, s_output, s_reference}",
        seen="the repository",
        read=readers.read_rade,
        scale=(1, 5),
        fair=_GOLDS_RATED,
        faults=("a reference is a rated reply, not the gold", "contexts repeat", "the mean rating alone"),
    ),
    PublishedSet(
        name="dailydialog++",
        kind=SetKind.LOG,
        paper="Sai et al. 2020, Improving Dialog Evaluation with a Multi-reference Adversarial Dataset, TACL",
        parts={name: name for name in ("train", "dev", "test")},
        files=("dataset/*.json",),
        layout="JSON lines of {context, positive_responses, adversarial_negative_responses, …}",
        seen="the repository",
        read=readers.read_dailydialog_plus,
        faults=("contexts are DailyDialog's: hold them out of sets that are made from it",),
    ),
    PublishedSet(
        name="dailydialog",
        kind=SetKind.LOG,
        paper="Li et al. 2017, DailyDialog, IJCNLP",
        parts={name: f"dialogues_{name}.txt" for name in ("text", "train", "validation", "test")},
        files=("dialogues_*.txt",),
        layout="a dialogue a line, with __eou__ behind each turn",
        seen="programs that read it",
        licence="CC BY-NC-SA 4.0",
        read=readers.read_dailydialog,
        faults=("test dialogues recur in train", "five rated sets are made from its test part"),
    ),
    PublishedSet(
        name="personachat",
        kind=SetKind.LOG,
        paper="Zhang et al. 2018, Personalizing Dialogue Agents, ACL",
        parts={name: f"{name}_none_original.txt" for name in ("train", "valid", "test")},
        files=("*_none_original.txt",),
        layout="numbered lines: utterance, tab, response, and candidates that are not read; 1 begins a dialogue",
        seen="programs that read it",
        read=readers.read_personachat,
        faults=("read the files without personas: in others each dialogue stands with what it is about",),
    ),
    PublishedSet(
        name="empatheticdialogues",
        kind=SetKind.LOG,
        paper="Rashkin et al. 2019, Towards Empathetic Open-domain Conversation Models, ACL",
        parts={name: name for name in ("train", "valid", "test")},
        files=("*.csv",),
        layout="conv_id,utterance_idx,context,prompt,speaker_idx,utterance,…, with _comma_ inside texts",
        seen="programs that read it",
        licence="CC BY-NC 4.0",
        read=readers.read_empathetic,
        faults=("quotes in it are text",),
    ),
    PublishedSet(
        name="topical-chat",
        kind=SetKind.LOG,
        paper="Gopalakrishnan et al. 2019, Topical-Chat, Interspeech",
        parts={name: name for name in ("train", "valid_freq", "valid_rare", "test_freq", "test_rare")},
        files=("conversations/*.json",),
        layout="{dialogue: {content: [{message, agent, …}]}}",
        seen="the repository",
        licence="CDLA-Sharing-1.0",
        may_share=True,
        read=readers.read_topical,
        faults=("usr:topicalchat is made from test_freq",),
    ),
)  # fmt: skip
SETS: Final[Mapping[str, PublishedSet]] = {published.name: published for published in _TABLE}


# ── A set by name ─────────────────────────────────────────────────────────────────────────────────────────────────────


def find_set(name: str) -> tuple[PublishedSet, str]:
    """Return a set by NAME or NAME:PART, and the part."""
    first, _, part = name.partition(":")
    if first not in SETS:
        raise Usage(f"no published set {first!r}", remedy=f"one of {', '.join(SETS)}")
    return SETS[first], part


def file_name(name: str) -> str:
    """Return what a set of this name and part is called in a home."""
    return name.replace(":", "-").replace("+", "p").casefold()


# In names of sets, also of copies of them, and the corpus whose test part they are made from; the first counts.
_CORPORA: Final = {
    **dict.fromkeys(("empathetic", "rade-emotion"), "EmpatheticDialogues"),
    **dict.fromkeys(("personachat", "persona", "convai2"), "PersonaChat"),
    **dict.fromkeys(("topicalchat", "topical"), "Topical-Chat"),
    **dict.fromkeys(("dailydialog", "gupta", "pang", "holistic", "predictive_engagement"), "DailyDialog"),
    **dict.fromkeys(("conture", "dstc9"), "DSTC9 chats"),
    "fed": "FED chats",
    "humod": "HUMOD",
    "reddit": "Reddit",
}


def corpora_of(sets: Sequence[str], stated: Sequence[str]) -> dict[str, str]:
    """Return the corpus of each set: as stated by SET=CORPUS, by its name, or the set itself."""
    corpora = {
        name: next((corpus for sign, corpus in _CORPORA.items() if sign in name.casefold()), name) for name in sets
    }
    for text in stated:
        name, sign, corpus = text.partition("=")
        if name not in corpora or not sign or not corpus:
            raise Usage(f"--corpus {text}: no such set", remedy=f"SET=CORPUS, where SET is one of {', '.join(corpora)}")
        corpora[name] = corpus
    return corpora


def set_of_ids(ids: Iterable[str]) -> PublishedSet | None:
    """Return the published set that the first of these ids of items says that it is from."""
    names = {file_name(name): published for name, published in SETS.items()}
    for item_id in ids:
        prefix = item_id.partition("/")[0]
        matches = [name for name in names if "/" in item_id and (prefix == name or prefix.startswith(f"{name}-"))]
        if matches:
            return names[max(matches, key=len)]
    return None


def read_set(name: str, source: Path, quality: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a published set holds, each with where it stands: items with ratings, or dialogues."""
    published, part = find_set(name)
    read, choice = published.require_reader(), published.choice(part, quality)
    files = SetFiles(source, published.name, published.files, published.layout)
    called, rated = file_name(name), list[RatedReply]()
    for number, row in enumerate(read(files, choice), start=1):
        if isinstance(row, RatedReply):
            rated.append(row)
        elif len(row.turns) > 1:
            yield row.where, {"id": f"{called}/{number}", "turns": list(row.turns)}
    yield from _items(called, rated, published.scale)


def _items(
    called: str, rated: list[RatedReply], scale: tuple[float, float] | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield an item a context; a second reply of one system in a context has another name."""
    contexts = dict[tuple[tuple[str, ...], tuple[str, ...]], list[RatedReply]]()
    for row in rated:
        if row.ratings:
            contexts.setdefault((row.context, row.references), []).append(row)
    for number, ((context, references), rows) in enumerate(contexts.items(), start=1):
        systems, counts = dict[str, RatedReply](), Counter[str]()
        for row in rows:
            name = row.system
            while name in systems:
                counts[row.system] += 1
                name = f"{row.system} #{counts[row.system] + 1}"
            systems[name] = row
        yield (
            rows[0].where,
            {
                "id": f"{called}/{number}",
                "turns": list(context),
                "references": list(references),
                "replies": {name: row.reply for name, row in systems.items()},
                "ratings": {name: list(row.ratings) for name, row in systems.items()},
                **({"scale": list(scale)} if scale else {}),
            },
        )
