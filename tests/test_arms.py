"""The arm grammar: what is written comes back in one canonical form, and every mistake is answered in words."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.arms import evaluate, format_arm, full_params, nearest, parse_arm, resolve, split_arms
from harness.spec import Arm, Param, Proof, Scalar, Treatment, UsageError, Use

MACHINE = {"cores": 4, "gpus": 0}


def treatment(name: str, **params: Param) -> Treatment:
    proof = Proof(after=lambda bench, snapshot, trace, **params: {})
    return Treatment(name=name, summary="", sources=(), proof=proof, hooks={}, params=params)


TREATMENTS = {
    known.name: known
    for known in (
        treatment("plain"),
        treatment("stack"),
        treatment(
            "many",
            workers=Param("min(cores - 1, 8)", "machine-dependent", kind="int", minimum=1, maximum=64),
            parts=Param(2, "literal", kind="int", minimum=2),
            share=Param(0.5, "a fraction", kind="float", minimum=0, maximum=1),
            mode=Param("default", "a choice", choices=("default", "max-autotune")),
            nested=Param(False, "a flag", kind="bool"),
            where=Param("", "any word"),
        ),
    )
}


def resolved(text: str, machine: dict[str, int] = MACHINE) -> str:
    return format_arm(resolve(parse_arm(text), TREATMENTS, machine))


# ------------------------------------------------------------------------------------------------ reading and printing


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("", ""),
        ("baseline", ""),
        ("  baseline ", ""),
        ("amp_bf16", "amp_bf16"),
        ("channels_last+amp_bf16", "amp_bf16+channels_last"),
        (" b + a ", "a+b"),
        ("a()", "a"),
        ("a( )", "a"),
        ("a(k=1,)", "a(k=1)"),
        ("a(z=1, b=2)", "a(b=2, z=1)"),
        ("a (k = 1)", "a(k=1)"),
        ("a(mode=max-autotune)", "a(mode=max-autotune)"),
        ('a(mode="default")', "a(mode=default)"),
        ("a(mode='default')", "a(mode=default)"),
        ("a(on=true, off=false)", "a(off=false, on=true)"),
        ('a(word="true")', 'a(word="true")'),
        ('a(word="1")', 'a(word="1")'),
        ("a(x=1_000)", "a(x=1000)"),
        ("a(x=0x10)", "a(x=16)"),
        ("a(x=1.50)", "a(x=1.5)"),
        ("a(x=-2)", "a(x=-2)"),
        ("a(path=/data/train)", "a(path=/data/train)"),
        ('a(path="/data/my train")', 'a(path="/data/my train")'),
        ('a(text="x, y) + z")', 'a(text="x, y) + z")'),
        ("a(n=min(cores - 1, 8))", 'a(n="min(cores - 1, 8)")'),
    ],
)
def test_one_canonical_form(written: str, canonical: str) -> None:
    assert format_arm(parse_arm(written)) == canonical
    assert parse_arm(canonical) == parse_arm(written)


def test_values_keep_their_types() -> None:
    (use,) = parse_arm('a(b=true, f=1.0, i=1, s=word, t="1")').uses
    assert use.kwargs == {"b": True, "f": 1.0, "i": 1, "s": "word", "t": "1"}
    assert [type(value) for value in use.kwargs.values()] == [bool, float, int, str, str]


names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
scalars: st.SearchStrategy[Scalar] = st.one_of(
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters='"\\'), max_size=12),
    st.text(string.ascii_letters + string.digits + "_/.:@-+()=,' ", max_size=12),
)


@st.composite
def arms(draw: st.DrawFn) -> Arm:
    uses = [
        Use(name, tuple(sorted(draw(st.dictionaries(names, scalars, max_size=3)).items())))
        for name in draw(st.lists(names.filter(lambda name: name != "baseline"), unique=True, max_size=4))
    ]
    return Arm(tuple(sorted(uses, key=lambda use: use.name)))


def typed(arm: Arm) -> list[tuple[str, list[tuple[str, type, Scalar]]]]:
    """An arm with its values' types, since 1 == 1.0 == True in Python."""
    return [(use.name, [(key, type(value), value) for key, value in use.params]) for use in arm.uses]


@given(arms())
def test_what_is_printed_is_read_back_as_the_same_arm(arm: Arm) -> None:
    assert typed(parse_arm(format_arm(arm))) == typed(arm)


@settings(max_examples=30)
@given(st.lists(arms().filter(lambda arm: arm.uses), max_size=4), st.sampled_from([" ", "\n", "; ", ";"]))
def test_a_list_of_arms_splits_only_between_arms(several: list[Arm], separator: str) -> None:
    texts = [format_arm(arm) for arm in several]
    assert split_arms(separator.join(texts)) == texts


@given(st.text(string.ascii_lowercase + "0_+(),=\"' ", max_size=30))
def test_any_text_is_read_or_refused_as_a_usage_error(text: str) -> None:
    try:
        arm = parse_arm(text)
    except UsageError:
        return
    assert parse_arm(format_arm(arm)) == arm


@pytest.mark.parametrize(
    "value",
    [
        'say "no"',
        "back\\slash\\",
        "tab\t",
        '"',
        '\\"',
        "two\nlines",
        "bell\x07",
        "delete\x7f",
        "€ \U0001f600",
    ],
)
def test_every_character_survives(value: str) -> None:
    arm = Arm((Use("a", (("k", value),)),))
    assert parse_arm(format_arm(arm)) == arm


def test_the_example_of_the_command_line_is_three_arms() -> None:
    assert split_arms("amp_bf16 channels_last amp_bf16+channels_last") == [
        "amp_bf16",
        "channels_last",
        "amp_bf16+channels_last",
    ]
    assert split_arms("a(k=1, m=2)\tb;c") == ["a(k=1, m=2)", "b", "c"]
    assert split_arms("  ") == []


# ------------------------------------------------------------------------------------------------ mistakes in the text


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("a+a", "'a' is named twice"),
        ("a(k=1)+a(k=2)", "'a' is named twice"),
        ("a+", "is no treatment"),
        ("+", "is no treatment"),
        ("Amp", "'Amp' is no treatment"),
        ("amp bf16", "is no treatment"),
        ("a(k=1", "a parenthesis is not closed"),
        ("a)", "a ')' too many at character 2"),
        ('a(k="x)', "a quote is not closed"),
        ("a(k=1)b", "expected ')' at the end"),
        ("a(1)", "'1' is no parameter; write key=value"),
        ("a(k)", "'k' is no parameter; write key=value"),
        ("a(K=1)", "is no parameter; write key=value"),
        ("a(k=)", "a parameter has no value"),
        ("a(k=1, k=2)", "parameter 'k' is given twice"),
        ("a(k=[1])", "not a boolean, a number or a word"),
        ("a(k=2024-01-01)", "not a boolean, a number or a word"),
    ],
)
def test_mistakes_are_named(written: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arm(written)
    assert words in str(caught.value)
    assert written in str(caught.value)


# ------------------------------------------------------------------------------------------------ resolving


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("plain", "plain"),
        ("many", "many(workers=3)"),
        ("many(workers=3)", "many(workers=3)"),
        ("many(workers=cores)", "many(workers=4)"),
        ("many(workers=2*cores)", "many(workers=8)"),
        ("many(workers=max(cores//3, 1))", "many(workers=1)"),
        ("many(parts=2, workers=1)", "many(workers=1)"),
        ("many(parts=3, workers=1)", "many(parts=3, workers=1)"),
        ("many(share=1, workers=1)", "many(share=1.0, workers=1)"),
        ("many(share=0.5, workers=1)", "many(workers=1)"),
        ("many(mode=default, workers=1)", "many(workers=1)"),
        ("many(mode=max-autotune, workers=1)", "many(mode=max-autotune, workers=1)"),
        ("many(nested=true, workers=1)", "many(nested=true, workers=1)"),
        ("many(where=cores, workers=1)", "many(where=cores, workers=1)"),
        ("stack+plain", "plain+stack"),
        ("baseline", ""),
    ],
)
def test_two_ways_of_writing_an_arm_are_one(written: str, canonical: str) -> None:
    assert resolved(written) == canonical
    assert resolved(canonical) == canonical


def test_a_default_that_hangs_on_the_machine_is_written_out() -> None:
    assert resolved("many", {"cores": 64, "gpus": 8}) == "many(workers=8)"
    assert resolved("many", {"cores": 2, "gpus": 0}) == "many(workers=1)"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("plian", "no treatment named 'plian'; did you mean 'plain'? `harness list treatments` shows all"),
        ("zzzzzz", "no treatment named 'zzzzzz'; `harness list treatments` shows all"),
        ("many(worker=1)", "no parameter 'worker'; did you mean 'workers'? it takes: workers, parts,"),
        ("plain(k=1)", "treatment 'plain' has no parameter 'k'; it takes: none"),
        ("many(parts=1)", "'parts' is 1; it must be at least 2"),
        ("many(workers=65)", "'workers' is 65; it must be at most 64"),
        ("many(workers=0)", "'workers' is 0; it must be at least 1"),
        ("many(parts=2.5)", "'parts' is 2.5; it takes a int"),
        ("many(parts=true)", "'parts' is True; it takes a int"),
        ("many(share=1.5)", "it must be at most 1"),
        ("many(share=nan)", "'share' is nan"),
        ("many(mode=fast)", "'mode' is 'fast'; it takes one of default, max-autotune"),
        ("many(mode=1)", "'mode' is 1; it takes a str, one of ['default', 'max-autotune']"),
        ("many(nested=1)", "'nested' is 1; it takes a bool"),
        ("many(where=1)", "'where' is 1; it takes a str"),
        ("many(workers=all)", "'all' is no number and no expression over cores, gpus"),
    ],
)
def test_a_wrong_name_or_value_is_answered_with_the_right_one(written: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolved(written)
    assert words in str(caught.value)


def test_full_params_fills_in_literal_defaults() -> None:
    (use,) = resolve(parse_arm("many(parts=3)"), TREATMENTS, MACHINE).uses
    assert full_params(use, TREATMENTS["many"]) == {
        "workers": 3, "parts": 3, "share": 0.5, "mode": "default", "nested": False, "where": "",
    }  # fmt: skip


def test_nearest_is_silent_when_nothing_is_near() -> None:
    assert nearest("amp_bf61", ["amp_bf16", "noop"]) == "; did you mean 'amp_bf16'?"
    assert nearest("qqq", ["amp_bf16"]) == ";"
    assert nearest("anything", []) == ";"


# ------------------------------------------------------------------------------------------------ expressions


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("cores", 4),
        ("cores - 1", 3),
        ("min(cores - 1, 8)", 3),
        ("max(1, gpus)", 1),
        ("(cores + 1) // 2", 2),
        ("-cores", -4),
        ("7", 7),
        ("0.5", 0.5),
        (5, 5),
        (True, True),
        (2.5, 2.5),
    ],
)
def test_expressions_over_the_machine(text: Scalar, value: Scalar) -> None:
    assert evaluate(text, MACHINE) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cores +",
        "cpus",
        "cores / 2",
        "cores ** 9",
        "cores // 0",
        "min()",
        "min(cores, key=cores)",
        "abs(cores)",
        "__import__('os')",
        "cores.real",
        "[cores]",
        "'cores'",
        "True",
        "cores if cores else 1",
        "lambda: 1",
        "(" * 300 + "1" + ")" * 300,
    ],
)
def test_nothing_else_is_evaluated(text: str) -> None:
    with pytest.raises(UsageError, match="is no number and no expression over cores, gpus"):
        evaluate(text, MACHINE)
