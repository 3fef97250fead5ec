"""Keeps a report fit to publish: no control characters, no host names, users, home paths, addresses or secrets.

Every text that enters a report passes `Filter.clean` once, at the door (`page.report_data`).
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import ipaddress
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from harness.record import Fact
from harness.report.format import capped

Value = TypeVar("Value")

LONG_TEXTS = frozenset({"stderr_tail", "spec_text", "command", "as_written"})
"""Fields that may be as long as `LONGEST_TEXT`; any other is a name or a sentence."""
LONGEST_NAME = 400
LONGEST_TEXT = 20_000
STAYS_JSON = "_json"
"""Fields with this ending are cleaned after they are decoded: an escape may hide anything."""

COMMON_WORDS = frozenset({"root", "localhost", "user", "admin", "ubuntu", "runner", "main", "work", "home", "test"})
"""User and host names that say nothing of anybody and would mangle a text."""

PRIVATE_FACTS = frozenset(
    [
        *("hostname", "host", "nodename", "fqdn", "domain", "user", "username", "login", "logname", "home"),
        *("ip", "address", "mac", "serial", "uuid", "cwd", "machine_id"),
    ]
)
"""Facts whose path ends in one of these are left out."""
VERSION_FACTS = re.compile(r"version|distribution|package|librar|cudnn|cublas|nccl|cuda|driver|torch|python", re.I)
"""Facts whose value may look like an address (9.10.2.21 is a version of cuDNN)."""

SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b([a-z][a-z0-9+.-]*://)[^/\s@]+@", re.I), r"\1"),
    (re.compile(r"([?&;][^=&\s]*(?:token|key|secret|password|sig|auth)[^=&\s]*=)[^&\s#'\"]+", re.I), r"\1[removed]"),
    (re.compile(r"\b(\w*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_KEY)\s*[=:]\s*)[^\s,;'\"]+"), r"\1[removed]"),
    (re.compile(r"\b((?:token|secret|password|api_key)=)[^\s,;'\"&]+", re.I), r"\1[removed]"),
    (re.compile(r"(\bbearer\s+)[\w.~+/=-]{8,}", re.I), r"\1[removed]"),
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|hf_|glpat-|sk-|xox[abprs]-)[\w-]{16,}"), "[removed]"),
    (re.compile(r"\bAKIA[0-9A-Z]{16}\b"), "[removed]"),
    (re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"), "[removed]"),
    (re.compile(r"(?:/home|/Users)/[^/\s:'\"<>,;)]+"), "~"),
    (re.compile(r"(?<![\w.])/root(?=[/\s:'\"<>,;)]|$)"), "~"),
    (re.compile(r"\b[A-Za-z]:\\+Users\\+[^\\\s'\"]+"), "~"),
    (re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b"), "[e-mail]"),
    (re.compile(r"\b[\w.-]+@[\w.-]+(?=:)"), "[removed]"),
    (re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.I), "[address]"),
)
IPV6 = re.compile(r"(?<![\w:.])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?![\w:])", re.I)
IPV4 = re.compile(r"(?<![\w.=-])\d{1,3}(?:\.\d{1,3}){3}(?![\w-]|\.\d)")
VERSION_BEFORE = re.compile(r"(?:version|cudnn|cublas|nccl|driver|release|build|cuda|v|==|-)\W{0,3}$", re.I)
HEXADECIMAL = re.compile(r"[0-9a-f-]*")
"""Identifiers: nothing in them can be an address or a secret."""
UNPRINTED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that a reader does not see or that turn the text around; line feeds and tabs are kept."""


class Filter:
    """Removes from texts what must not be published; `words` are names known to be private (host, user)."""

    def __init__(self, private_words: Sequence[str] = ()) -> None:
        """`private_words` of fewer than three letters, or that anybody might use, are not looked for."""
        known = sorted({word for word in private_words if len(word) > 2 and word.lower() not in COMMON_WORDS})
        pattern = "|".join(re.escape(word) for word in sorted(known, key=len, reverse=True))
        self._words = re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])", re.I) if known else None
        self._cached = functools.lru_cache(maxsize=65_536)(self._text)

    def text(self, text: str, most: int = LONGEST_NAME, may_hold_addresses: bool = True) -> str:
        """One text, without what must not be seen, and cut to a length that a page can show."""
        return self._cached(text, most, may_hold_addresses)

    def _text(self, text: str, most: int, may_hold_addresses: bool) -> str:
        text = printable(capped(text, 50 * LONGEST_TEXT))
        plain = HEXADECIMAL.fullmatch(text) is not None
        for pattern, replacement in () if plain else SECRETS:
            text = pattern.sub(replacement, text)
        if not plain and may_hold_addresses:
            text = IPV4.sub(_hidden_address, IPV6.sub(_hidden_address, text))
        if self._words:
            text = self._words.sub("[private]", text)
        return capped(text, most)

    def clean(self, value: Value, field: str = "") -> Value:
        """The same value with every text in it cleaned: dataclasses, mappings and sequences to any depth."""
        cleaned: Any = value
        if value is None or isinstance(value, int | float | enum.Enum):
            return value
        if isinstance(value, str):
            longest = LONGEST_TEXT if field in LONG_TEXTS else LONGEST_NAME
            cleaned = value if field.endswith(STAYS_JSON) else self.text(value, longest)
        elif isinstance(value, Fact):
            cleaned = self._fact(value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            cleaned = self._record(value)
        elif isinstance(value, Mapping):
            cleaned = {self.clean(key): self.clean(each, field) for key, each in value.items()}
        elif isinstance(value, tuple | list):
            cleaned = tuple(self.clean(each, field) for each in value)
        result: Value = cleaned
        return result

    def _record(self, record: Any) -> Any:
        """A dataclass with the fields replaced that cleaning changes."""
        changes = {}
        for each in dataclasses.fields(record):
            value = getattr(record, each.name)
            cleaned = self.clean(value, each.name)
            if cleaned is not value:
                changes[each.name] = cleaned
        return dataclasses.replace(record, **changes) if changes else record

    def facts(self, facts: Sequence[Fact]) -> tuple[Fact, ...]:
        """The facts that may be published, cleaned."""
        return tuple(self._fact(fact) for fact in facts if not is_private_fact(fact.path))

    def _fact(self, fact: Fact) -> Fact:
        may_hold_addresses = not VERSION_FACTS.search(fact.path)
        value = None if fact.value is None else self.text(fact.value, LONGEST_NAME, may_hold_addresses)
        return dataclasses.replace(
            fact, path=self.text(fact.path), value=value, unit=self.text(fact.unit), source=self.text(fact.source)
        )


def is_private_fact(path: str) -> bool:
    """Whether a fact names a machine or a person by its very subject."""
    parts = path.lower().split(".")
    return parts[-1] in PRIVATE_FACTS or "hostname" in parts


def printable(text: str) -> str:
    """A text without control, bidirectional, invisible and unpaired characters."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each for each in text if each in "\n\t" or unicodedata.category(each) not in UNPRINTED)


def _hidden_address(found: re.Match[str]) -> str:
    text = found.group()
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text
    before = found.string[max(0, found.start() - 20) : found.start()]
    return text if VERSION_BEFORE.search(before) else "[address]"
