"""Signatures, specifications, parameters and the register: one setting has one spelling, and no two share one."""

from __future__ import annotations

import itertools
import re
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing
from safeguards import needs_extra

from refaug.core.errors import BadInput, Usage
from refaug.core.version import VERSION
from refaug.metrics.base import Metric
from refaug.metrics.catalogue import METRICS, find
from refaug.metrics.metric_info import CorpusScore, MetricInfo, Uses
from refaug.metrics.models.model_kinds import ModelName
from refaug.metrics.parameters import (
    Choice,
    Members,
    Number,
    Parameter,
    RangeParameter,
    Smoothing,
    Text,
    decimal,
    shortest,
    smoothing_of,
)
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification, build, settings_of

ALONE = [name for name, info in METRICS.items() if not info.needs]  # they can be built without any file
EVERY = list(METRICS)


def signature(specification: str) -> Signature:
    """The signature of a metric, or of its settings alone where a file would be needed to build it."""
    asked = Specification.parse(specification)
    info = find(asked.name)
    if info.needs:
        return Signature(metric=info.name, settings=settings_of(info, asked, {}))
    return Signature.of(build(asked))


# ── signatures ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_short_signature_is_exactly_this() -> None:
    beginning = "delta-bleu|n:2|variant:galley15|smooth:exp|bp:closest|eff:auto|case:lc|tok:word|full:"
    short = Signature.of(build("delta-bleu")).short
    assert re.fullmatch(rf"{re.escape(beginning)}[0-9a-f]{{12}}\|refaug:{re.escape(VERSION)}", short)


def test_the_full_signature_ends_in_versions() -> None:
    metric = build("bleu:tok=13a")
    parts = Signature.of(metric, more={"k": "15"}, details={"vectors": "a|b"}).full.split("|")
    assert parts[:2] == ["bleu", "n:2"]
    assert parts[-4:] == ["k:15", f"tokenizer.:{metric.versions()['tokenizer']}", "vectors.:a%7Cb", f"refaug:{VERSION}"]


def test_retrieval_settings_follow_the_metrics_settings_in_order() -> None:
    more = {"k": "15", "mode": "embedding-utterance", "gold": "one", "index": "chat@2026-11-20.1#9f2c41d07e12"}
    short = Signature.of(build("upsilon-bleu"), more=more).short
    assert "|tok:word|k:15|mode:embedding-utterance|gold:one|index:chat@2026-11-20.1#9f2c41d07e12|full:" in short
    assert list(Signature.parse(short).settings.items())[-4:] == list(more.items())


@pytest.mark.parametrize("name", EVERY)
def test_a_signature_reads_back_as_the_same_settings(name: str) -> None:
    made = signature(name)
    full, short = Signature.parse(made.full), Signature.parse(f"  {made.short}\n")
    assert full == made
    assert list(full.settings.items()) == list(short.settings.items()) == list(made.settings.items())
    assert (full.full, full.short) == (made.full, made.short)
    assert (short.metric, short.refaug, short.details) == (name, VERSION, {})


def test_the_short_signature_changes_with_what_only_the_full_one_shows() -> None:
    metric = build("bleu")
    shorts = {
        Signature.of(metric).short,
        Signature.of(metric, details={"vectors": "a"}).short,
        Signature.of(metric, details={"vectors": "b"}).short,
        Signature(metric="bleu", settings=metric.settings, details=metric.versions(), refaug="0.0.0").short,
    }
    assert len(shorts) == 4


KEYS = st.from_regex(r"[a-z0-9+-]{1,40}", fullmatch=True).filter(lambda key: key not in ("full", "refaug"))
VALUES = st.one_of(st.text(max_size=12), st.text("|%:,. é\n#[]\0😂", max_size=8))


@given(
    st.text("abc|%:é", min_size=1, max_size=5),
    st.dictionaries(KEYS, VALUES, min_size=1, max_size=5),
    st.dictionaries(KEYS, VALUES, max_size=5),
)
@settings(max_examples=25, deadline=None)
def test_any_values_come_back_out_of_one_line_of_ascii(
    metric: str, values: dict[str, str], details: dict[str, str]
) -> None:
    made = Signature(metric=metric, settings=values, details=details)
    for text in (made.full, made.short):
        assert text.isascii()
        assert text.isprintable()
    assert Signature.parse(made.full) == made
    assert Signature.parse(made.short).settings == values


@pytest.mark.parametrize("value", ["50%", "a|b", "C:\\a:b", "a,b", "größe.txt", "言語", "%7C", "", " "])
def test_signs_with_a_meaning_and_other_scripts_come_back(value: str) -> None:
    made = Signature(metric="greedy", settings={"vectors": value, "n": "1"}, details={"model": value})
    assert Signature.parse(made.full) == made


def test_a_file_name_that_is_no_utf8_comes_back_too() -> None:
    # Python shows such bytes of a command line or a folder as lone surrogates.
    made = Signature(metric="greedy", settings={"vectors": b"caf\xe9.txt".decode("utf-8", "surrogateescape")})
    assert made.short.isascii()
    assert Signature.parse(made.full) == made


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bleu",
        "bleu|n:2",
        "bleu|n2|refaug:1",
        "bleu|n:2|n:3|refaug:1",
        "bleu|:2|refaug:1",
        "bleu||refaug:1",
        "bleu|N:2|refaug:1",
        "bleu|n:2|a.:1|a.:2|refaug:1",
        "hello there",
    ],
)
def test_a_line_that_is_no_signature_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        Signature.parse(text)
    assert repr(text) in refused.value.message


# ── no two settings share a signature ─────────────────────────────────────────────────────────────────────────────────

SMOOTHINGS = ("none", "exp", "floor", "floor[0.2]", "add-k", "add-k[2]", "add-k[0.5]", "epsilon", "epsilon[1e-9]")
TOKENIZERS = ("word", "char", "13a", "intl", "mecab", "mecab:unidic-lite")


def values_of(parameter: Parameter) -> list[str]:
    """Values that mean different things."""
    match parameter:
        case Choice():
            return [one for one in parameter.choices if one != "auto" or parameter.name != "case"]  # lc or mixed: below
        case Number() if parameter.whole:
            least, most = int(parameter.least), int(parameter.most)
            numbers = range(least, min(most, least + 1_000) + 1)  # of the seeds of a judge there are 2**31
            return [str(number) for number in dict.fromkeys([*numbers, most])]
        case Number():
            low, high = parameter.least, parameter.most
            reals = {low, high, float(parameter.default), low + (high - low) / 3, low + (high - low) / 1e6}
            return [repr(number) for number in reals]
        case Smoothing():
            return list(SMOOTHINGS)
        case RangeParameter():
            return ["auto", "0..1", "-1..1", "0.25..0.5"]
    if parameter.name == "tok":
        return list(dict.fromkeys([parameter.default, *TOKENIZERS]))
    return ["one.txt", "two.txt", "één|twee.txt"]


def beside(name: str, key: str) -> str:
    """What must be given with a parameter for all its values to be allowed."""
    if key == "case" and METRICS[name].parameter("tok"):
        return ",tok=13a"  # word and rouge lower-case by themselves
    return ",norm=yes" if key == "asian" else ""


@pytest.mark.parametrize(
    ("name", "key"), [(info.name, one.name) for info in METRICS.values() for one in info.parameters]
)
def test_two_values_of_a_parameter_never_have_one_signature(name: str, key: str) -> None:
    parameter = METRICS[name].parameter(key)
    assert parameter is not None
    values = values_of(parameter)
    made = [signature(f"{name}:{key}={value}{beside(name, key)}") for value in values]
    # Of METEOR there is one implementation yet, and a rater rates nothing but the reply.
    assert len(values) >= 2 or name.endswith("meteor") or (name, key) == ("rater", "target")
    assert len({one.full for one in made}) == len(values)
    assert len({one.short.partition("|full:")[0] for one in made}) == len(values)
    assert len({one.short for one in made}) == len(values)


def test_two_parameters_never_have_one_signature() -> None:
    single = {
        f"{name}:{parameter.name}={value}{beside(name, parameter.name)}"
        for name in ("bleu", "delta-bleu", "chrf", "ter", "upsilon-chrf")
        for parameter in METRICS[name].parameters
        if parameter.name != "case"
        for value in values_of(parameter)
        if parameter.canonical(value) != parameter.canonical(parameter.default)
    }
    shorts = [signature(one).short for one in sorted(single)]
    assert len(set(shorts)) == len(shorts) > 100


@pytest.mark.parametrize(
    "spellings",
    [
        [
            "smooth=add-k",
            "smooth=add-k[1]",
            "smooth=add-k[1.0]",
            "smooth=add-k,smooth-value=1e0",
        ],
        ["smooth=exp", ""],
        ["smooth=floor", "smooth=floor[.1]", "smooth-value=0.10,smooth=floor", " smooth = floor "],
        ["smooth=epsilon", "smooth=epsilon[1e-15]", "smooth=epsilon[0.000000000000001]"],
        ["n=4", "n=4.0", "n=+4", "n=04", "n=4e0"],
        ["tok=word", "case=lc", "case=auto", "tok=word,case=lc", "n=2,bp=closest", "bp=closest,n=2"],
        ["tok=mecab", "tok=mecab:ipadic"],
        ["tok=13a", "tok=13a,case=mixed"],
    ],
)
def test_two_spellings_of_one_setting_have_one_signature(spellings: list[str]) -> None:
    made = {Signature.of(build(f"delta-bleu:{one}" if one else "delta-bleu")).full for one in spellings}
    assert len(made) == 1


def alternatives(name: str) -> list[str]:
    """The metric with its defaults, and with one other value of each parameter."""
    others = [
        f"{name}:{parameter.name}={value}{beside(name, parameter.name)}"
        for parameter in METRICS[name].parameters
        if parameter.name != "case"
        for value in values_of(parameter)[-2:]
    ]
    return [name, *others]


@pytest.mark.parametrize("name", ALONE)
def test_a_metric_built_from_its_signature_has_the_same_signature(name: str) -> None:
    for one in alternatives(name):
        made = Signature.of(build(one), more={"k": "15"})
        for read in (Signature.parse(made.full), Signature.parse(made.short)):
            again = build(read.specification())
            assert Signature.of(again, more={"k": "15"}) == made
            assert Signature.of(build(str(read.specification())), more={"k": "15"}).full == made.full


def test_of_a_metric_that_is_not_known_here_everything_is_its_own() -> None:
    asked = Signature.parse("other|a:1|b:|refaug:9").specification()
    assert asked == Specification("other", (("a", "1"),))


# ── specifications ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_specification_is_a_name_and_what_was_given() -> None:
    assert Specification.parse(" bleu ") == Specification("bleu")
    assert Specification.parse("bleu:n=4,tok=mecab:unidic-lite") == Specification(
        "bleu", (("n", "4"), ("tok", "mecab:unidic-lite"))
    )
    assert Specification.parse("x: a = b=c , d=e") == Specification("x", (("a", "b=c"), ("d", "e")))


@given(st.dictionaries(st.from_regex(r"[a-z-]+", fullmatch=True), st.from_regex(r"[a-z0-9:.=\[\]#-]+", fullmatch=True)))
@settings(max_examples=50, deadline=None)
def test_a_specification_reads_back(given_: dict[str, str]) -> None:
    asked = Specification("delta-bleu", tuple(given_.items()))
    assert Specification.parse(str(asked)) == asked


def test_defaults_of_a_request_stand_behind_what_a_metric_was_given() -> None:
    defaults = {"tok": "13a", "n": "3", "vectors": "v.txt", "stem": "yes"}
    assert dict(build("bleu:n=4", defaults).settings) == dict(build("bleu:n=4,tok=13a").settings)
    assert "tok" not in build("chrf", defaults).settings
    with refusing(Usage, "9"):
        build("bleu", {"n": "9"})


@pytest.mark.parametrize(
    ("specification", "message", "remedy"),
    [
        ("multi-blue", "multi-blue", "perhaps multi-bleu"),
        ("", "no metric is called ''", "refaug score metrics list"),
        ("BLEU", "BLEU", "bleu"),
        ("bleu;n=4", "bleu;n=4", "bleu"),
        ("bleu:", "bleu", "bleu:key=value"),
        ("bleu:variant=galley15", "variant", "n, smooth, bp, eff, case, tok, smooth-value"),
        ("chrf:smooth-value=1", "smooth-value", "char-order, word-order"),
        ("bleu:n=2,n=3", "bleu:n=2,n=3", "every parameter once"),
        ("bleu:n=2, n =2", "gives n twice", "every parameter once"),
        ("bleu:n", "bleu:n", "delta-bleu:n=4,smooth=exp"),
        ("bleu:n=", "bleu:n=", "delta-bleu:n=4,smooth=exp"),
        ("bleu:=2", "bleu:=2", "delta-bleu:n=4,smooth=exp"),
        ("bleu:n=2,", "bleu:n=2", "delta-bleu:n=4,smooth=exp"),
        ("bleu:n=two", "two", "a whole number from 1 to 4"),
        ("bleu:n=0", "bleu: n cannot be '0'", "a whole number from 1 to 4"),
        ("bleu:n=5", "bleu: n cannot be '5'", "a whole number from 1 to 4"),
        ("bleu:n=-1", "bleu: n cannot be '-1'", "a whole number from 1 to 4"),
        ("bleu:n=2.5", "2.5", "a whole number from 1 to 4"),
        ("bleu:n=nan", "nan", "a whole number from 1 to 4"),
        ("bleu:n=inf", "inf", "a whole number from 1 to 4"),
        ("bleu:n=1e999", "1e999", "a whole number from 1 to 4"),
        ("bleu:n=1_0", "1_0", "a whole number from 1 to 4"),
        ("bleu:n=٢", "bleu: n cannot be '٢'", "a whole number from 1 to 4"),
        ("upsilon-chrf:b=1", "upsilon-chrf: b cannot be '1'", "0.999"),
        ("delta-bleu:variant=galley", "galley", "galley15 | galley-fork | tsuta20 | sacrebleu-raw"),
        ("bleu:bp=gold", "gold", "closest | none"),
        ("bleu:eff=true", "true", "auto | yes | no"),
        ("bleu:smooth=laplace", "laplace", "floor[0.1]"),
        ("bleu:smooth=add-k[", "add-k[", "add-k[1]"),
        ("bleu:smooth=add-k[]", "add-k[]", "add-k[1]"),
        ("bleu:smooth=add-k1]", "add-k1]", "add-k[1]"),
        ("bleu:smooth=[1]", "[1]", "add-k[1]"),
        ("bleu:smooth=add-k[1][2]", "add-k[1][2]", "add-k[1]"),
        ("bleu:smooth=add-k[0]", "add-k[0]", "all above 0"),
        ("bleu:smooth=add-k[nan]", "add-k[nan]", "all above 0"),
        ("bleu:smooth=add-k[-1]", "add-k[-1]", "all above 0"),
        ("bleu:smooth=floor[1.5]", "floor[1.5]", "at most 1"),
        ("bleu:smooth=epsilon[2]", "epsilon[2]", "at most 1"),
        ("bleu:smooth=none[1]", "none[1]", "none"),
        ("bleu:smooth=exp,smooth-value=2", "exp[2]", "exp"),
        ("bleu:smooth-value=", "bleu:smooth-value=", "for example"),
        ("bleu:smooth=add-k[1],smooth-value=2", "add-k[1]", "leave smooth-value out"),
        ("bleu:tok=klingon", "klingon", "one of: word, char, 13a, intl"),
        ("bleu:tok=word,case=mixed", "tok=word is lower-case by itself", "13a, intl"),
    ],
)
def test_a_specification_that_makes_no_sense_is_refused_with_the_remedy(
    specification: str, message: str, remedy: str
) -> None:
    with pytest.raises(Usage) as refused:
        build(specification)
    assert message in refused.value.message
    assert remedy in refused.value.remedy


@given(st.sampled_from(EVERY), st.text(max_size=30))
@settings(max_examples=50, deadline=None)
def test_no_specification_fails_otherwise_than_as_usage(name: str, rest: str) -> None:
    assert remedy_for(f"{name}:{rest}") != ""


def remedy_for(specification: str) -> str | None:
    """What Usage advises; None where there is nothing to advise."""
    try:
        asked = Specification.parse(specification)
        settings_of(find(asked.name), asked, {})
    except Usage as refused:
        return refused.remedy
    return None


# ── parameters ────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=50, deadline=None)
def test_the_shortest_digits_read_back_as_the_same_number(number: float) -> None:
    text = shortest(number)
    assert decimal(text) == float(text) == number
    assert len(text) <= len(repr(number))


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.0, "1"), (0.1, "0.1"), (1e-15, "1e-15"), (1e22, "1e22"), (-0.0, "0"), (1.5e-7, "1.5e-7"), (1e6, "1000000")],
)
def test_numbers_are_written_as_people_write_them(number: float, text: str) -> None:
    assert shortest(number) == text


@pytest.mark.parametrize(("text", "number"), [("1", 1), (".5", 0.5), ("1.", 1), ("-2E3", -2000), ("+1e-2", 0.01)])
def test_decimals_are_read_in_every_common_form(text: str, number: float) -> None:
    assert decimal(text) == number


@pytest.mark.parametrize(
    "text", ["", ".", "nan", "inf", "1e999", "0x1", "1_0", "1,5", " 1", "1 ", "١", "1e", "--1", "1e1.5"]
)
def test_what_is_no_decimal_is_none(text: str) -> None:
    assert decimal(text) is None


@given(st.sampled_from(sorted(SMOOTHINGS)))
@settings(max_examples=20, deadline=None)
def test_the_canonical_form_of_a_smoothing_is_canonical(text: str) -> None:
    parameter = Smoothing(name="smooth", default="add-k", help="")
    canonical = parameter.parse(text, "bleu")
    assert parameter.parse(canonical, "bleu") == canonical
    method, value = smoothing_of(canonical)
    assert canonical == (f"{method}[{shortest(value)}]" if value else method)


def test_the_default_values_of_smoothings() -> None:
    parameter = Smoothing(name="smooth", default="add-k", help="")
    assert [smoothing_of(parameter.parse(method, "")) for method in ("none", "floor", "add-k", "exp", "epsilon")] == [
        ("none", 0.0),
        ("floor", 0.1),
        ("add-k", 1.0),
        ("exp", 0.0),
        ("epsilon", 1e-15),
    ]


def test_a_text_holds_no_comma_which_would_end_it_in_a_specification() -> None:
    parameter = Text(name="vectors", default="", what="a file", help="")
    assert parameter.canonical("a b.txt") == "a b.txt"
    with refusing(Usage, "a,b"):
        parameter.parse("a,b", "greedy")


# ── the register ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("info", list(METRICS.values()), ids=EVERY)
def test_every_metric_says_what_it_is(info: MetricInfo) -> None:
    assert METRICS[info.name] is find(info.name) is info
    assert re.fullmatch(r"[a-z][a-z0-9+-]*", info.name)
    assert info.summary
    assert not info.summary.endswith(".")
    assert re.search(r"\d{4}", info.paper)
    assert isinstance(info.uses, Uses)
    assert isinstance(info.corpus, CorpusScore)
    assert info.high is None or info.low < info.high
    assert info.range == f"{info.low:g} to {'∞' if info.high is None else format(info.high, 'g')}"
    assert info.direction == ("lower is better" if info.name == "ter" else "higher is better")
    assert info.is_share == (info.low == 0 and info.high == 1)


@pytest.mark.parametrize(
    "made_by",
    [
        pytest.param(info.made_by, id=info.name, marks=[needs_extra(parts[2])] * (parts[1] == "extras"))
        for info in METRICS.values()
        for parts in [info.made_by.split(".")]
    ],
)
def test_every_metric_is_made_by_a_class_of_its_room(made_by: str) -> None:
    module, _, name = made_by.partition(":")
    assert issubclass(getattr(import_module(module), name), Metric)


@pytest.mark.parametrize("name", EVERY)
def test_every_parameter_states_its_values_and_has_a_valid_default(name: str) -> None:
    parameters = METRICS[name].parameters
    names = [one.name for one in parameters]
    assert len(set(names)) == len(names) > 0
    for one in parameters:
        assert re.fullmatch(r"[a-z][a-z-]*", one.name)
        assert one.help
        assert one.allowed
        assert METRICS[name].parameter(one.name) is one
        if one.default or not isinstance(one, Text | ModelName | Members):
            canonical = one.parse(one.default, name)
            assert one.parse(canonical, name) == canonical
    assert list(settings_of(METRICS[name], Specification(name), {})) == names


@pytest.mark.parametrize("name", ALONE)
def test_a_built_metric_has_the_settings_of_the_register_in_its_order(name: str) -> None:
    metric: Metric = build(name)
    assert metric.name == name
    assert metric.info is METRICS[name]
    assert list(metric.settings) == [one.name for one in METRICS[name].parameters]
    assert len(set(metric.columns)) == len(metric.columns) > 0


def test_the_upsilon_forms_are_those_of_metrics_that_have_one() -> None:
    forms = {name for name in METRICS if name.startswith("upsilon-")} - {"upsilon-bleu"}
    assert forms == {f"upsilon-{name}" for name, info in METRICS.items() if info.upsilon}
    assert "upsilon-cider" not in forms
    for name in forms:
        base = METRICS[name.removeprefix("upsilon-")]
        assert METRICS[name].is_share
        assert METRICS[name].uses is Uses.WEIGHTED
        assert METRICS[name].higher_is_better
        assert METRICS[name].needs == base.needs
        kept = [one.name for one in base.parameters if one.name not in ("refs", "multi")]
        assert [one.name for one in METRICS[name].parameters] == ["agg", "keep-gold", "lambda", "b", *kept]


def test_the_members_of_bleu_differ_in_what_they_use() -> None:
    used = {name: METRICS[name].uses for name in ("bleu", "multi-bleu", "delta-bleu", "upsilon-bleu")}
    assert list(used.values()) == [Uses.GOLD, Uses.OWN, Uses.RATED, Uses.WEIGHTED]
    for one, other in itertools.combinations(used, 2):
        assert Signature.of(build(one)).short != Signature.of(build(other)).short


@pytest.mark.parametrize("given", ["smooth=add-k", "smooth=exp", "eff=auto", "eff=yes", "smooth=add-k,smooth-value=2"])
def test_fixed_variant_refuses_other_settings_even_the_default(given: str) -> None:
    with refusing(Usage, "tsuta20"):
        build(f"delta-bleu:variant=tsuta20,{given}")
    assert (
        build("delta-bleu:variant=tsuta20,smooth=none,eff=no").settings == build("delta-bleu:variant=tsuta20").settings
    )
    assert build("delta-bleu:variant=tsuta20").settings["smooth"] == "none"
