"""A vhred on disk, and opened: a network with its tokenizer, which turns dialogues into vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, Self, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.core.errors import BadInput, Usage
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater.adem.vhred.conversation_sizes import stored_config
from refaug.rater.adem.vhred.encoder import DialogueBatch, Numbers, Turns, batch_dialogues
from refaug.rater.adem.vhred.held_conversations import HeldConversation, conversation_draw
from refaug.rater.adem.vhred.network import DialogueStates, VhredNetwork, pack_turns
from refaug.rater.adem.vhred.sizes import STATES, GenerationSettings, State, VhredConfig
from refaug.rater.language_coverage import Coverage, unfamiliar
from refaug.rater.network_folder import NetworkFiles
from refaug.rater.rating import OpenedFacts

# ── Likelihoods of replies: log p of every piece of a reply, given a context or given nothing ─────────────────────────
#
# The latent variable is at the mean of its Gaussian before the reply is seen, so these are probabilities of replies
# and no bounds: over all replies to a context they add up to 1.

LogLikelihoods = NDArray[np.float64]
_AT_ONCE: Final = 256  # replies of like length
_LOGITS_AT_ONCE: Final = 128  # steps, each of which has a logit for every piece
_PIECES_AT_ONCE: Final = 3_000  # that are read: all of their states are in memory


def batches(lengths: Sequence[int], most: int) -> Iterator[NDArray[np.int64]]:
    """Yield places of texts, the longest first, at most so many together, and of long texts fewer."""
    order = np.argsort([-length for length in lengths], kind="stable")
    while len(order):
        rows = max(1, min(most, _PIECES_AT_ONCE // max(1, lengths[order[0]])))
        yield order[:rows]
        order = order[rows:]


def piece_log_likelihoods(
    network: VhredNetwork, contexts: Sequence[Turns], replies: Sequence[Numbers]
) -> list[LogLikelihoods]:
    """Return log p of each piece of each reply and of its end, in nats; a context without turns is no context."""
    device = network.embedding.device
    logs: list[LogLikelihoods] = [np.empty(0)] * len(replies)
    lengths = [len(reply) + sum(map(len, turns)) for turns, reply in zip(contexts, replies, strict=True)]
    for at_once in batches(lengths, _AT_ONCE):
        batch = batch_dialogues([contexts[at] for at in at_once], network.config.end)
        turns = pack_turns([replies[at] for at in at_once], network.config.end)
        with torch.inference_mode():
            states = network.read(batch)
            rows, ends = torch.from_numpy(turns.order).to(device), torch.from_numpy(batch.end_counts - 1).to(device)
            conditions = network.condition(states.contexts[rows, ends[rows]], states.utterances[rows, ends[rows]], None)
            features = torch.split(network.features(turns, conditions), _LOGITS_AT_ONCE)
            targets = torch.split(torch.from_numpy(turns.targets).to(device), _LOGITS_AT_ONCE)
            packed = -torch.cat(
                [
                    nn.functional.cross_entropy(network.decoder.logits(part).double(), aims, reduction="none")
                    for part, aims in zip(features, targets, strict=True)
                ]
            ).numpy(force=True)
        by_turn = np.argsort(turns.rows, kind="stable")
        for row, of_reply in enumerate(np.split(packed[by_turn], np.cumsum(turns.lengths)[:-1])):
            logs[at_once[turns.order[row]]] = of_reply
    return logs


# ── Writing replies with a VHRED: the likeliest piece at every step, beam search, or sampling ─────────────────────────
#
# Greedy and beam search take the latent variable at the mean of its Gaussian; whatever draws, draws it first. A reply
# never begins with its end, and holds no padding and no unknown piece. Beam search ranks replies by their mean log p
# a piece, and takes the best one, or draws one of them as the released code of Ghandeharioun et al. (2019) does.

_NEVER: Final = -1e9  # log p of a piece that must not be written
_FORBIDDEN: Final = (0, 1)  # padding, and the unknown piece

Reply = list[int]


class _Conditions(NamedTuple):
    """What replies are written from, row by row."""

    gates: Tensor
    outputs: Tensor
    states: Tensor  # of the decoder, before the next piece

    def select(self, rows: Tensor) -> _Conditions:
        """Return these rows."""
        return _Conditions(self.gates[rows], self.outputs[rows], self.states[rows])


def generate_replies(
    network: VhredNetwork,
    contexts: Sequence[Turns],
    settings: GenerationSettings,
    seeds: Sequence[int],
    conversations: Sequence[HeldConversation] | None = None,
) -> list[Reply]:
    """Return the pieces of one reply to each context; a seed decides everything that is drawn for its reply.

    The variable of a VHCR is held for the conversations; without them, it is inferred for each reply.
    """
    generators = [np.random.default_rng(seed) for seed in seeds]
    with torch.inference_mode():
        conditions = _conditions(network, contexts, generators if settings.is_random else None, conversations)
        if settings.method == "beam":
            searched = _search(network, conditions, settings)
            return [
                choose_reply(replies, settings.choice, generator.random())
                for replies, generator in zip(searched, generators, strict=True)
            ]
        return _write(network, conditions, settings, generators)


def _conditions(
    network: VhredNetwork,
    contexts: Sequence[Turns],
    generators: Sequence[np.random.Generator] | None,
    conversations: Sequence[HeldConversation] | None,
) -> _Conditions:
    """Read the contexts; the latent variables are drawn by the generators, or at their means."""
    batch = batch_dialogues(contexts, network.config.end)
    states = network.read(batch, conversation_draw(network, conversations, generators))
    rows, ends = torch.arange(len(contexts)), torch.from_numpy(batch.end_counts - 1)
    context, latent = states.contexts[rows, ends], None
    if network.latent is not None and generators is not None:
        noise = np.stack([generator.standard_normal(network.config.latent) for generator in generators])
        latent = network.latent.prior(context).sample(torch.from_numpy(noise).float())
    condition, decoder = network.condition(context, states.utterances[rows, ends], latent), network.decoder
    return _Conditions(
        decoder.condition_gates(condition), decoder.condition_output(condition), decoder.first_states(condition)
    )


def _step(
    network: VhredNetwork, conditions: _Conditions, pieces: Tensor | None, place: int
) -> tuple[Tensor, _Conditions]:
    """Return log p of every next piece, (rows, vocabulary), and the conditions after the last `pieces` (rows,)."""
    decoder, states = network.decoder, conditions.states
    rows = states.shape[0]
    if pieces is None:
        inputs = states.new_zeros(rows, network.config.embedding)
    else:
        inputs = nn.functional.embedding(pieces, network.embedding)
    gates = decoder.cell.gates_of(inputs)[0] + conditions.gates
    states = decoder.cell.step(gates[None], states[None])[0]
    features = decoder.state_output(states) + decoder.piece_output(inputs) + conditions.outputs
    logits = decoder.logits(features).double()
    logits[:, list(_FORBIDDEN)] = _NEVER
    if place == 0:
        logits[:, network.config.end] = _NEVER
    return torch.log_softmax(logits, dim=1), conditions._replace(states=states)


def _write(
    network: VhredNetwork,
    conditions: _Conditions,
    settings: GenerationSettings,
    generators: Sequence[np.random.Generator],
) -> list[Reply]:
    """Write all replies piece by piece; those that are finished leave."""
    replies: list[Reply] = [[] for _ in generators]
    rows, last = list(range(len(generators))), None
    for place in range(settings.max_tokens):
        logs, conditions = _step(network, conditions, last, place)
        if settings.method == "greedy":
            chosen = logs.argmax(dim=1).tolist()
        else:
            uniform = [generators[row].random() for row in rows]
            chosen = _sample(logs, np.array(uniform), settings)
        writing = [at for at, piece in enumerate(chosen) if piece != network.config.end]
        for at in writing:
            replies[rows[at]].append(chosen[at])
        if not writing:
            break
        conditions = conditions.select(torch.tensor(writing))
        rows, last = [rows[at] for at in writing], torch.tensor([chosen[at] for at in writing])
    return replies


def _sample(logs: Tensor, uniform: np.ndarray, settings: GenerationSettings) -> list[int]:
    """Return a piece for each row: the first whose cumulated probability exceeds the row's uniform number."""
    scaled = (logs / settings.temperature).numpy()
    if 0 < settings.top_k < scaled.shape[1]:
        least = np.partition(scaled, -settings.top_k, axis=1)[:, -settings.top_k, None]
        scaled = np.where(scaled < least, -np.inf, scaled)
    likely = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    cumulated = np.cumsum(likely, axis=1)
    drawn = (cumulated <= (uniform * cumulated[:, -1])[:, None]).sum(axis=1)
    return np.minimum(drawn, scaled.shape[1] - 1).astype(np.int64).tolist()  # type: ignore[no-any-return]


def choose_reply(ranked: Sequence[Reply], choice: str, uniform: float) -> Reply:
    """Return one of the replies, best first: the best, or drawn with weights by rank or by length.

    By rank the weights are n − 1, …, 1, 0, so that the last is never drawn. Empty replies are left out; where one
    remains, it is taken, and where none does, any is drawn.
    """
    if choice == "best":
        return ranked[0]
    usable = [reply for reply in ranked if reply] or list(ranked)
    if len(usable) == 1:
        return usable[0]
    by_rank = range(len(usable) - 1, -1, -1)
    weights = np.array([len(reply) for reply in usable] if choice == "length" else by_rank, np.float64)
    if not weights.any():
        weights[:] = 1.0
    cumulated = np.cumsum(weights)
    return usable[int(np.searchsorted(cumulated, uniform * cumulated[-1], side="right"))]


class _Beams:
    """The unfinished replies of one request, and the best finished ones."""

    def __init__(self, count: int) -> None:
        self.pieces: list[Reply] = [[]]
        self.totals = [0.0]
        self.finished = list[tuple[float, Reply]]()  # with their mean log p, best first
        self._count = count  # of finished replies that are sought

    def finish(self, reply: Reply, mean: float) -> None:
        """Note a finished reply; of two that are as good, the first."""
        self.finished.append((mean, reply))
        self.finished.sort(key=lambda pair: -pair[0])
        del self.finished[self._count :]

    def is_settled(self, length: int, most: int) -> bool:
        """Say whether no unfinished reply can become better: log p only falls, and a longer reply shares it out."""
        if len(self.finished) < self._count or length == 0:
            return False
        return max(self.totals, default=-np.inf) / most <= self.finished[-1][0]

    def ranked(self) -> list[Reply]:
        """Return the finished replies, best first, and behind them unfinished ones as far as replies are missing."""
        return [*(reply for _, reply in self.finished), *self.pieces][: self._count]


def _search(network: VhredNetwork, conditions: _Conditions, settings: GenerationSettings) -> list[list[Reply]]:
    """Search for the replies with the highest mean log p to each request, all requests at once."""
    count = 1 if settings.choice == "best" else settings.beams
    requests = [_Beams(count) for _ in range(conditions.states.shape[0])]
    live, last = list(range(len(requests))), None
    for place in range(settings.max_tokens):
        logs, conditions = _step(network, conditions, last, place)
        begin, live_rows, pieces = 0, list[int](), list[int]()
        still_live = list[int]()
        for at in live:
            beams = requests[at]
            count = len(beams.pieces)
            rows, chosen = _extend(beams, logs[begin : begin + count], network.config.end, settings.beams)
            if chosen and not beams.is_settled(place + 1, settings.max_tokens + 1):
                live_rows += [begin + row for row in rows]
                pieces += chosen
                still_live.append(at)
            begin += count
        live = still_live
        if not live:
            break
        conditions, last = conditions.select(torch.tensor(live_rows)), torch.tensor(pieces)
    return [beams.ranked() for beams in requests]


def _extend(beams: _Beams, logs: Tensor, end: int, most: int) -> tuple[list[int], list[int]]:
    """Extend the unfinished replies of a request by the best pieces; return the row and the piece of each."""
    totals = torch.tensor(beams.totals, dtype=torch.float64)[:, None] + logs
    values, places = totals.flatten().topk(min(2 * most, totals.numel()))
    rows, chosen, replies, sums = list[int](), list[int](), list[Reply](), list[float]()
    for total, place in zip(values.tolist(), places.tolist(), strict=True):
        row, piece = divmod(place, logs.shape[1])
        if total <= _NEVER / 2:
            break
        if piece == end:
            beams.finish(beams.pieces[row], total / (len(beams.pieces[row]) + 1))
        elif len(rows) < most:
            rows.append(row)
            chosen.append(piece)
            replies.append([*beams.pieces[row], piece])
            sums.append(total)
    beams.pieces, beams.totals = replies, sums
    return rows, chosen


# ── A vhred on disk, and opened: a network with its tokenizer, which turns dialogues into vectors ─────────────────────

KIND: Final = "vhred"
_READ_AT_ONCE: Final = 512  # dialogues of like length
_WRITTEN_AT_ONCE: Final = 64  # replies

Dialogue = Sequence[str]
Vectors = NDArray[np.float32]


class Vhred:
    """A network with its tokenizer; several threads may use it.

    The same dialogue gets the same vector within 1e-5, whatever else is encoded with it.
    """

    def __init__(
        self,
        network: VhredNetwork,
        tokenizer: SentencePieceTokenizer,
        *,
        vhred_id: str = "",
        **facts: Unpack[OpenedFacts],
    ) -> None:
        self.network, self.tokenizer, self.id = network.eval(), tokenizer, vhred_id
        self.languages, self._usual = tuple(facts.get("languages", ())), facts.get("usual") or Coverage()
        self.spec, self._threads, self.lock = facts.get("spec", ""), facts.get("threads", 1), Lock()

    @classmethod
    def open(cls, folder: Path, *, spec: str = "", threads: int = 1) -> Self:
        """Load a vhred; refuse files that were altered after saving."""
        network, tokenizer, stored = FILES.open(folder)
        return cls(network, tokenizer, vhred_id=stored.id, **stored.opened(spec, threads))

    @property
    def config(self) -> VhredConfig:
        """The sizes of the network."""
        return self.network.config

    def encode(self, dialogues: Sequence[Dialogue], state: State = "context") -> Vectors:
        """Return the vector of each dialogue, (dialogues, size), in the order given.

        It is the state after the last turn: of the reader of turns, or of the reader of pieces (`utterance`). Of a
        longer dialogue the last `config.turns` turns are read; a reference or a reply is a dialogue of one turn.
        """
        if state not in STATES:
            raise Usage(f"state {state!r} is not known", remedy=f"one of: {', '.join(STATES)}")
        vectors = np.empty((len(dialogues), self.config.state_size(state)), np.float32)
        places = dict[tuple[str, ...], int]()
        rows = np.array([places.setdefault(tuple(turns), len(places)) for turns in dialogues], np.int64)
        distinct = self.pieces_of(list(places))
        of_distinct = np.empty((len(places), vectors.shape[1]), np.float32)
        for at_once in batches([sum(len(turn) + 1 for turn in turns) for turns in distinct], _READ_AT_ONCE):
            batch = batch_dialogues([distinct[at] for at in at_once], self.config.end)
            states = self.read(batch)
            by_end = states.contexts if state == "context" else states.utterances
            last = torch.from_numpy(batch.end_counts - 1)
            of_distinct[at_once] = by_end[torch.arange(len(at_once)), last, : vectors.shape[1]].numpy()
        return of_distinct[rows] if len(rows) else vectors

    def log_likelihoods(self, contexts: Sequence[Dialogue], replies: Sequence[str]) -> list[LogLikelihoods]:
        """Return log p of each piece of each reply, and of its end, in nats; a context without turns is none."""
        coded = self.tokenizer.encode_ids_batch(list(replies))
        with self.lock, torch.inference_mode():
            torch.set_num_threads(self._threads)
            turns = [self._turns(context) for context in contexts]
            return piece_log_likelihoods(self.network, turns, [self._cut(ids) for ids in coded])

    def generate(
        self,
        contexts: Sequence[Dialogue],
        settings: GenerationSettings,
        seeds: Sequence[int],
        held: Sequence[tuple[Dialogue, int]] = (),
    ) -> list[str]:
        """Return a reply to each context; a seed decides everything that is drawn for its reply.

        A context without turns is the end of a turn alone: the reply begins a dialogue. `held` are the opening turns
        and the seed of each conversation; without them they are the first turn, and the seed of the reply.
        """
        texts = list[str]()
        held = held or [(turns[:1], seed) for turns, seed in zip(contexts, seeds, strict=True)]
        conversations = [HeldConversation(self._turns(turns) if turns else [], seed) for turns, seed in held]
        is_held = settings.conversation == "held"
        pieces = [self._turns(turns) if turns else [] for turns in contexts]
        for begin in range(0, len(contexts), _WRITTEN_AT_ONCE):
            at_once = slice(begin, begin + _WRITTEN_AT_ONCE)
            with self.lock:
                torch.set_num_threads(self._threads)
                of_replies = conversations[at_once] if is_held else None
                replies = generate_replies(self.network, pieces[at_once], settings, seeds[at_once], of_replies)
            texts += [self.tokenizer.decode_ids(reply) for reply in replies]
        return texts

    def read(self, batch: DialogueBatch) -> DialogueStates:
        """Return the states of dialogues at the ends of their turns."""
        with self.lock, torch.inference_mode():
            torch.set_num_threads(self._threads)
            return self.network.read(batch)

    def pieces_of(self, dialogues: Sequence[Dialogue]) -> list[Turns]:
        """Return the pieces of the last turns of dialogues; a turn without any is the unknown piece."""
        for number, turns in enumerate(dialogues, 1):
            if not turns:
                raise BadInput(f"dialogue {number} of {len(dialogues)} has no turn", remedy="give at least one turn")
        return [self._turns(turns) for turns in dialogues]

    def _turns(self, turns: Dialogue) -> Turns:
        last_turns = list(turns)[-self.config.turns :]
        return [self._cut(ids) for ids in self.tokenizer.encode_ids_batch(last_turns)]

    def _cut(self, ids: Sequence[int]) -> NDArray[np.int64]:
        return np.array(ids[: self.config.max_tokens] or [self.tokenizer.unk_id], np.int64)

    def coverage(self, texts: Sequence[str]) -> Coverage:
        """Return how the tokenizer cuts texts into pieces; coverages can be added up for `unfamiliar`."""
        return Coverage.of(self.tokenizer, texts)

    def unfamiliar(self, texts_coverage: Coverage) -> str | None:
        """Return why scores of texts like these mean little; None if nothing speaks against them."""
        return unfamiliar(texts_coverage, self._usual, self.languages, kind=KIND, scores_name="scores")


# On disk


FILES: Final = NetworkFiles[VhredConfig, VhredNetwork](
    kind=KIND, config=VhredConfig, module="refaug.rater.adem.vhred.network:VhredNetwork", written=stored_config
)
save_vhred, read_vhred_manifest = FILES.save, FILES.read
