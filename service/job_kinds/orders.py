"""What jobs can be asked to do: one model a kind, with the defaults of the commands that do the same.

There is no `again` here as the commands have it: an order that is begun once more, after its process was killed, finds
what it has made already.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from core.errors import BadInput

_MOST_SHOWN: Final = 5

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Spec = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}(@[0-9]{4}-[0-9]{2}-[0-9]{2}\.[1-9][0-9]{0,8})?$")]
SetId = Annotated[str, Field(pattern=r"^[0-9a-f]{6,16}$")]
Stored = Annotated[str, Field(pattern=r"^items-[0-9a-f]{32}$")]
Text = Annotated[str, Field(min_length=1, max_length=1_000)]
Logs = Annotated[list[Name], Field(min_length=1, max_length=100)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class _Model(BaseModel):
    """Nothing that is not known, and nothing taken for another kind of value."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _Work(_Model):
    """What most jobs have."""

    threads: int | None = Field(default=None, description="threads; by default one for each core", ge=1, le=1_024)
    memory_mib: int = Field(default=2_048, description="memory to work in, in MiB", ge=256, le=16_777_216)

    @property
    def memory(self) -> int:
        """The same in bytes."""
        return self.memory_mib << 20


def _require_one(first: object, second: object, said: str) -> None:
    if (first is None) == (second is None):
        raise ValueError(said)


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Cleaning(_Model):
    """How the texts of a log are cleaned."""

    language: str | None = Field(
        default=None, description="drop messages in another script than this language's, e.g. en, ja", max_length=35
    )
    no_rules: list[Text] = Field(default_factory=list, description="cleaning rules that are switched off")
    only_rules: list[Text] | None = Field(default=None, description="run these cleaning rules only; []: none")
    min_chars: int = Field(default=1, description="shorter messages are dropped", ge=0, le=10_000_000)
    max_chars: int = Field(default=2_000, description="longer messages are dropped", ge=1, le=10_000_000)
    flood_cap: int = Field(
        default=1_000, description="of near-identical messages this many are kept", ge=1, le=1_000_000_000
    )
    block_speakers: list[Text] = Field(default_factory=list, description="drop what these speakers said")

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        if self.no_rules and self.only_rules is not None:
            raise ValueError("no_rules and only_rules contradict each other")
        return self


class Reading(_Model):
    """How the files of a log are read."""

    format: str = Field(default="auto", description="auto, or a format by name: jsonl, csv, reddit, …", max_length=40)
    map: dict[str, str] = Field(
        default_factory=dict, description='where a field is in the source, e.g. {"text": "body"}', max_length=20
    )
    ids: bool = Field(default=True, description="keep the source's dialogue ids, or number dialogues by file and line")
    context: list[Text] = Field(
        default_factory=list, description="message files in inbox/ read only for what others reply to"
    )
    encoding: str = Field(default="auto", description="text encoding; auto: UTF-8 or what a mark says", max_length=40)
    markup: str = Field(default="auto", description="mark-up to take off: auto, none, reddit, slack, …", max_length=40)
    on_error: Literal["report", "stop"] = Field(
        default="report", description="report: leave bad rows out and go on; stop: end at the first"
    )
    max_bad_share: Share = Field(default=0.1, description="give a source up when more of its rows than this are bad")


class IngestJob(Reading, Cleaning):
    """Add dialogues to a log: files in inbox/, or what was posted."""

    kind: Literal["ingest"] = Field(description="which job it is")
    log: Name = Field(description="log to add to; made when it is not there")
    sources: list[Text] | None = Field(
        default=None, description="files and folders in inbox/, or under configured folders", min_length=1
    )
    posted: bool = Field(default=False, description="take the dialogues that were posted to the log")
    memory_mib: int = Field(default=2_048, description="memory to work in, in MiB", ge=256, le=16_777_216)
    workers: int | None = Field(
        default=None, description="processes beside this one; default: one a core, at most 8; 0: none", ge=0, le=64
    )

    @model_validator(mode="after")
    def _from_somewhere(self) -> Self:
        _require_one(self.sources, self.posted or None, 'either sources, or "posted": true')
        told = [name for name, field in Reading.model_fields.items() if getattr(self, name) != _default(field)]
        if self.posted and told:
            raise ValueError(f"{told[0]} is for files; what was posted has one form")
        return self


def _default(field: Any) -> Any:
    return field.get_default(call_default_factory=True)


class EraseJob(_Work):
    """Take dialogues or speakers out of a log for good, and out of all that was made of it."""

    kind: Literal["erase"] = Field(description="which job it is")
    log: Name = Field(description="the log")
    dialogues: list[Text] = Field(default_factory=list, description="ids of dialogues", max_length=100_000)
    speakers: list[Text] = Field(
        default_factory=list, description="names of speakers: every pair with one of them goes", max_length=100_000
    )
    compact: bool = Field(
        default=False,
        description="build the indexes anew, so that their files hold nothing of it; else it is masked in them, and "
        "cannot be found",
    )

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.dialogues and not self.speakers:
            raise ValueError("nothing is named that should go: dialogues or speakers")
        return self


# ── vectors and indexes ───────────────────────────────────────────────────────────────────────────────────────────


class VectorsJob(_Model):
    """Train word vectors on logs."""

    kind: Literal["vectors"] = Field(description="which job it is")
    logs: Logs = Field(description="logs whose turns are learned from")
    name: Name | None = Field(default=None, description="name of the vectors; by default that of the first log")
    dimensions: int = Field(default=200, description="length of a vector", ge=1, le=10_000)
    epochs: int = Field(default=25, description="how often all co-occurrences are gone through", ge=1, le=10_000)
    window: int = Field(default=15, description="words to each side that count as neighbours", ge=1, le=255)
    min_count: int = Field(default=5, description="rarer words get no vector", ge=1, le=1_000_000)
    max_words: int = Field(
        default=400_000, description="at most so many words get one, the most frequent", ge=2, le=100_000_000
    )
    x_max: Positive = Field(default=100.0, description="from this co-occurrence on, all weigh the same")
    alpha: Positive = Field(default=0.75, description="how fast the weight grows up to there")
    learning_rate: Positive = Field(default=0.05, description="of AdaGrad, at the start")
    tokenizer: str | None = Field(
        default=None, description="tokenizer whose words they are; by default what suits the logs", max_length=200
    )
    seed: Seed = Field(default=1, description="another seed, other vectors")
    threads: int | None = Field(default=None, description="threads; by default one for each core", ge=1, le=1_024)
    memory_mib: int = Field(default=1_024, description="memory to count words in, in MiB", ge=1, le=16_777_216)
    publish: bool = Field(default=True, description="let them be what their name stands for from now on")


class IndexBuildJob(_Work):
    """Build an index of some logs, measure its recall, and publish it."""

    kind: Literal["index-build"] = Field(description="which job it is")
    logs: Logs = Field(description="logs whose pairs are indexed")
    index: Name | None = Field(default=None, description="name of the index; by default that of the first log")
    vectors: Spec | None = Field(
        default=None, description="word vectors; by default those named as the first log, unless there is an encoder"
    )
    encoder: Text | None = Field(
        default=None, description="folder with a sentence encoder in inbox/ or a configured folder"
    )
    fit_mib: int | None = Field(
        default=None, description="memory that serving the index may take, in MiB", ge=1, le=16_777_216
    )
    recall: float = Field(
        default=0.95, description="the share of exact search's 15 best that must be found", gt=0, le=1
    )
    latency_ms: Positive | None = Field(default=None, description="milliseconds that a single search may take")
    factory: str | None = Field(
        default=None, description="a kind of index by FAISS's name, e.g. IVF4096,SQ8", max_length=200
    )
    tokenizer: str | None = Field(
        default=None, description="tokenizer; by default the one that the vectors were trained with", max_length=200
    )
    weighting: Literal["mean", "sif"] = Field(default="mean", description="how words weigh in a sentence")
    norm_words: bool = Field(default=True, description="scale each word's vector to unit length first")
    oov: Literal["skip", "unk"] = Field(default="skip", description="what words without a vector count as")
    bm25: bool = Field(default=True, description="make the modes of BM25 possible as well")
    check_queries: int = Field(
        default=1_000, description="utterances on which recall is measured; 0 measures nothing", ge=0, le=100_000
    )
    least_coverage: Share = Field(default=0.3, description="the share of the log's words that the vectors must know")
    seed: Seed = Field(default=1, description="of the sampling for training and for the check")
    publish: bool = Field(default=True, description="let the new version serve")

    @model_validator(mode="after")
    def _one_source_of_vectors(self) -> Self:
        if self.vectors is not None and self.encoder is not None:
            raise ValueError("vectors from word vectors or from an encoder, not from both")
        return self


Mode = Literal["embedding-utterance", "embedding-dialog", "bm25-utterance", "bm25-dialog"]


class IndexUpdateJob(_Work):
    """Bring an index up to its logs as they are now."""

    kind: Literal["index-update"] = Field(description="which job it is")
    index: Name = Field(description="the index")
    publish: bool = Field(default=True, description="let the new version serve")
    least_recall: Share | None = Field(
        default=None,
        description="compare the new version with a search through all of it first; with less recall than this it is "
        "not published, and the job fails",
    )
    mode: Mode = Field(default="embedding-utterance", description="the way of searching that is compared")
    check_queries: int = Field(default=200, description="utterances that are asked for it", ge=1, le=100_000)
    seed: Seed = Field(default=1, description="another seed, other utterances")


class IndexCompactJob(_Work):
    """Build an index anew with its own settings: one segment, with nothing in it of what was deleted."""

    kind: Literal["index-compact"] = Field(description="which job it is")
    index: Name = Field(description="the index")
    publish: bool = Field(default=True, description="let the new version serve")


class GcJob(_Model):
    """Remove old versions; those stay that are published, in use, or needed by something else."""

    kind: Literal["gc"] = Field(description="which job it is")
    artefact: Literal["index", "rater", "ruber", "vectors"] = Field(description="what kind of artefact")
    name: Name = Field(description="which one")
    keep: int = Field(default=3, description="so many of the newest versions stay", ge=0, le=100_000)


# ── raters ────────────────────────────────────────────────────────────────────────────────────────────────────────


class RaterTrainJob(_Work):
    """Train a rater on utterances that got several responses."""

    kind: Literal["rater-train"] = Field(description="which job it is")
    logs: Logs = Field(description="logs that are learned from")
    rater: Name | None = Field(default=None, description="name of the rater; by default that of the first log")
    more_texts: list[Name] = Field(
        default_factory=list, description="further logs that teach pieces and vectors alone", max_length=100
    )
    preset: Literal["paper", "base", "small"] = Field(default="base", description="sizes that go together")
    positives: Count | None = Field(
        default=None, description="positive examples an epoch, drawn anew each time; by default all"
    )
    min_words: Count | None = Field(default=None, description="words of the shortest utterance; by default four")
    min_chars: Count | None = Field(
        default=None, description="the same in characters, where words are not set apart by spaces"
    )
    negatives: Literal["random", "hard", "mixed"] = Field(
        default="random", description="responses to drawn utterances, such as share rare words, or half of either"
    )
    epochs: int | None = Field(default=None, description="at most so many; by default the preset's", ge=1, le=10_000)
    patience: int = Field(default=3, description="epochs without a lower validation loss that end it", ge=1, le=10_000)
    learning_rate: float = Field(default=1e-3, description="of Adam", gt=0, lt=1)
    decay: Literal["none", "linear"] | None = Field(
        default=None, description="how the learning rate falls; by default the preset's"
    )
    dropout: float | None = Field(
        default=None, description="share of an embedding's numbers left out; by default the preset's", ge=0, lt=1
    )
    batch: Count | None = Field(default=None, description="examples a batch; by default the preset's")
    accumulate: int = Field(default=1, description="batches a step", ge=1, le=10_000)
    max_tokens: int = Field(default=128, description="pieces of a text that are read", ge=1, le=10_000)
    validation_share: float = Field(default=0.05, description="of the utterances, never trained on", gt=0, lt=1)
    embeddings: Literal["vectors", "random"] | None = Field(
        default=None, description="what they start from; by default the preset's"
    )
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="where it is trained")
    seed: Seed = Field(default=1, description="another seed, another network")
    publish: bool = Field(default=True, description="let it be what its name stands for from now on")


# ── sets and agreement ────────────────────────────────────────────────────────────────────────────────────────────


class ReferenceSettings(_Model):
    """How references are found, rated and weighed."""

    k: int = Field(default=15, description="how many references to find", ge=1, le=1_000)
    mode: Mode = Field(default="embedding-utterance", description="how utterances are compared")
    gold: Literal["one", "rated"] = Field(default="one", description="what a gold weighs")
    parrot: Literal["rated", "off"] | Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] = Field(
        default="rated", description="the utterance itself as a reference: rated, off, or its weight"
    )
    weights: Literal["one", "rated"] = Field(default="rated", description="what references that are found weigh")
    combine: Literal["first", "first-literal", "max", "confident", "mean"] = Field(
        default="first", description="how the rater's two answers become one"
    )
    calibrated: bool = Field(default=False, description="rate with the rater's temperature")
    exclude_logs: list[Name] = Field(default_factory=list, description="logs to take nothing from", max_length=1_000)
    after: str | None = Field(default=None, description="only pairs at or after this time; without a zone: UTC")
    before: str | None = Field(default=None, description="only pairs before this time; without a zone: UTC")
    near: Share = Field(default=0.9, description="a response as like the gold as this is left out")
    near_tokens: int = Field(default=5, description="where both have at least so many words", ge=0, le=1_000_000)
    depth: Count | None = Field(
        default=None, description="candidates that are ranked again; null: as many as are needed"
    )
    alpha: Share = Field(default=0.5, description="the responses' share in the dialog modes")
    epsilon: Share = Field(default=0.1, description="what stands in for it otherwise")

    @field_validator("after", "before")
    @classmethod
    def _is_a_time(cls, text: str | None) -> str | None:
        if text is not None:
            moment_of(text)
        return text


def moment_of(text: str) -> datetime:
    """A time as it is written; without a zone it is UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class FreezeJob(_Model):
    """Freeze items with their weighted references."""

    kind: Literal["freeze"] = Field(description="which job it is")
    items: Stored | None = Field(default=None, description="items that were sent to be frozen, by their stored name")
    source: Text | None = Field(default=None, description="a test file in inbox/ or a configured folder")
    purpose: Literal["train", "validation", "test"] = Field(description="what the set is for")
    index: Spec | None = Field(
        default=None, description="index that references are found in; without it they are taken as they are"
    )
    rater: Spec | None = Field(default=None, description="rater that weighs them")
    settings: ReferenceSettings | None = Field(default=None, description="how they are found, rated and weighed")
    strict: bool = Field(default=False, description="freeze nothing where any item cannot be used")
    threads: int | None = Field(default=None, description="threads; by default one for each core", ge=1, le=1_024)

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        _require_one(self.items, self.source, "either items, or a source")
        if self.index is None and (self.rater is not None or self.settings is not None):
            raise ValueError("rater and settings are for references that an index finds: name one")
        return self


class MetaJob(_Model):
    """Say how far metrics agree with people's ratings."""

    kind: Literal["meta"] = Field(description="which job it is")
    data: list[Text] = Field(description="test sets with ratings in inbox/, or in configured folders", min_length=1)
    metrics: list[Text] = Field(
        default_factory=list,
        description="what to compare: NAME or NAME:key=value,…; without any: those of bleu, multi-bleu, rouge-l and "
        "chrf that apply",
        max_length=1_000,
    )
    baseline: Text | None = Field(
        default=None, description="the one of the metrics that every other is compared with; without it, the first"
    )
    rater: Spec | None = Field(default=None, description="rater that the metric rater asks")
    ruber: Spec | None = Field(default=None, description="ruber that the metric ruber asks")
    sample: Spec | None = Field(
        default=None, description="index whose log says what counts as 0 and 1 of the parts of ruber"
    )
    rows: Literal["fair", "all"] = Field(
        default="fair", description="fair: no replies that are one of their own golds; all: every rated reply"
    )
    draws: Count = Field(default=10_000, description="draws of the bootstrap over contexts")
    confidence: float = Field(default=0.95, description="of the intervals", ge=0.5, le=0.9999)
    seed: Seed = Field(default=1, description="of the draws")
    min_kappa: float | None = Field(
        default=None, description="leave out annotators whose mean κ with the others is lower", ge=-1, le=1
    )
    language: str | None = Field(default=None, description="decides the tokenizer of the metrics", max_length=35)
    threads: int | None = Field(default=None, description="threads; by default one for each core", ge=1, le=1_024)


# ── the night ─────────────────────────────────────────────────────────────────────────────────────────────────────


class NightLimits(_Model):
    """What the new version must keep to; beyond one of them, it is built and not published."""

    recall: Share | None = Field(default=None, description="at least so much of what a search through everything finds")
    corpus_difference: Share | None = Field(
        default=None, description="at most so far may a corpus score on the set move, up or down"
    )
    mean_absolute: Share | None = Field(
        default=None, description="at most so far may the score of a reply move, on average"
    )
    references_changed: Share | None = Field(
        default=None, description="at most this share of the items may have other references than before"
    )
    spearman: float | None = Field(
        default=None, description="at least so alike must old and new scores rank the replies", ge=-1, le=1
    )

    @property
    def of_set(self) -> dict[str, float]:
        """Those that are about scores on a set, which are given."""
        return {name: value for name, value in self.model_dump(exclude={"recall"}).items() if value is not None}


class NightlyJob(Cleaning, _Work):
    """A night: take what was posted, update the index, check it, score a set beside the old version, publish."""

    kind: Literal["nightly"] = Field(description="which job it is")
    log: Name = Field(description="log that the new dialogues are added to")
    index: Name = Field(description="index that is brought up to its logs")
    sources: list[Text] | None = Field(
        default=None,
        description="files and folders in inbox/ to add; without them, what was posted to the log",
        min_length=1,
    )
    set: SetId | None = Field(
        default=None,
        description="frozen set on which the old and the new version are compared: references of its items are found "
        "and weighed anew with both, with the set's own settings, and the same replies are scored; without it, nothing "
        "is compared",
    )
    replies: Text | None = Field(
        default=None,
        description="file in inbox/ with replies to items of the set; without it, the gold of each item is the reply, "
        "scored against its references without golds",
    )
    rater: Spec | None = Field(default=None, description="rater that weighs; by default the one that weighed the set")
    metrics: list[Text] = Field(
        default_factory=lambda: ["upsilon-bleu"], description="what to compare with", min_length=1, max_length=100
    )
    limits: NightLimits = Field(default_factory=NightLimits, description="what the new version must keep to")
    mode: Mode = Field(default="embedding-utterance", description="the way of searching whose recall is checked")
    check_queries: int = Field(default=200, description="utterances on which recall is checked", ge=1, le=100_000)
    seed: Seed = Field(default=1, description="of the utterances that are drawn for it")
    keep: int = Field(default=2, description="versions of the index that stay", ge=1, le=10_000)
    workers: int | None = Field(
        default=None, description="processes beside this one for reading; default: one a core", ge=0, le=64
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.set is None and (told := [*self.limits.of_set, *(["replies"] if self.replies is not None else [])]):
            raise ValueError(f"{told[0]} is about scores on a set: name one")
        return self


# ── all of them ───────────────────────────────────────────────────────────────────────────────────────────────────

JobOrder = Annotated[
    IngestJob
    | VectorsJob
    | IndexBuildJob
    | IndexUpdateJob
    | IndexCompactJob
    | RaterTrainJob
    | FreezeJob
    | MetaJob
    | EraseJob
    | NightlyJob
    | GcJob,
    Field(discriminator="kind"),
]
_ORDERS: Final = TypeAdapter[JobOrder](JobOrder)
KINDS: Final = (
    "ingest",
    "vectors",
    "index-build",
    "index-update",
    "index-compact",
    "rater-train",
    "freeze",
    "meta",
    "erase",
    "nightly",
    "gc",
)


def parse_order(values: Mapping[str, Any]) -> JobOrder:
    """The order that JSON says, or BadInput naming the field."""
    try:
        return _ORDERS.validate_python(dict(values))
    except ValidationError as error:
        told = [_told(one) for one in error.errors()]
        more = f"; and {len(told) - _MOST_SHOWN} more" if len(told) > _MOST_SHOWN else ""
        raise BadInput(
            f"the order of a job: {'; '.join(told[:_MOST_SHOWN])}{more}", remedy=f"kinds are: {', '.join(KINDS)}"
        ) from None


def _told(one: Mapping[str, Any]) -> str:
    """Where, and what; the kind that the union puts first is no place."""
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in one["loc"][1:]).lstrip(".")
    said = str(one["msg"]).removeprefix("Value error, ")
    return f"{place}: {said}" if place else said


def metrics_in(order: JobOrder) -> list[str]:
    """The metrics that an order names."""
    match order:
        case MetaJob():
            return [*order.metrics, *([order.baseline] if order.baseline is not None else [])]
        case NightlyJob():
            return list(order.metrics)
    return []


def resources_of(order: JobOrder) -> tuple[str, ...]:
    """What a job writes: no two jobs that share one run at once."""
    match order:
        case IngestJob() | EraseJob():
            return (f"log/{order.log}",)
        case NightlyJob():
            return (f"log/{order.log}", f"index/{order.index}")
        case VectorsJob():
            return (f"vectors/{order.name or order.logs[0]}",)
        case IndexBuildJob():
            return (f"index/{order.index or order.logs[0]}",)
        case IndexUpdateJob() | IndexCompactJob():
            return (f"index/{order.index}",)
        case RaterTrainJob():
            return (f"rater/{order.rater or order.logs[0]}",)
        case GcJob():
            return (f"{order.artefact}/{order.name}",)
        case FreezeJob():
            return (f"items/{order.items or order.source}",)
        case MetaJob():
            return (f"meta/{'+'.join(order.data)}",)
