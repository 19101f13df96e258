"""Parses path queries by recursive descent; the grammar is in docs/path-queries.md.

Every error says the expected text, its position, and the remedy. (A parser library takes more time
to import on a cold start than all else that a query needs, and gives no shorter code with these
messages.)
"""

from __future__ import annotations

import re
from typing import Final, cast

from turnstile.catalog.query.core.query import (
    TYPES,
    All,
    Compare,
    Exists,
    Field,
    In,
    Like,
    Not,
    Operator,
    Predicate,
    Prefix,
    Query,
    Some,
    Step,
    Value,
)
from turnstile.store.core.errors import InvalidRequest

MAX_CHARACTERS: Final = 4_000
MAX_STEPS: Final = 32
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 1_000

KEYWORDS: Final = ("and", "or", "not", "in", "like", "prefix", "exists", "true", "false")

_NAME: Final = re.compile(r"[A-Za-z0-9_@-]{1,255}")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?(?![A-Za-z0-9_.])")
_OPERATOR: Final = re.compile(r"!=|<>|<=|>=|=|<|>")
_FILES: Final = re.compile(r"files\s*\[", re.IGNORECASE)
_UNTIL_BRACKET: Final = re.compile(r"""(?:[^]'"`]|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`)*""", re.DOTALL)
"""Text up to a bracket that is in no quotes."""
_SPACE: Final = re.compile(r"\s*")
_KINDS: Final[dict[type, str]] = {str: "a text in quotes", int: "a number", bool: "true or false"}


def parse(text: str, *, files: bool = False) -> Query:
    """Returns the query that ``text`` spells; with ``files`` one whose last level is
    ``files[...]``, and only such a one. Raises InvalidRequest with the ``position`` of the error,
    from 1.
    """
    if len(text) > MAX_CHARACTERS:
        problem = f"the query has {len(text)} characters"
        remedy = f"use at most {MAX_CHARACTERS}"
        raise InvalidRequest(problem, field="query", remedy=remedy)
    query = _Parser(text).query()
    if files is not (query.files is not None):
        problem = "the query does not ask for files" if files else "the query asks for files"
        remedy = "end it with /files[...], or ask GET /v1/find" if files else "ask GET /v1/find/files"
        raise InvalidRequest(problem, field="query", remedy=remedy, position=len(text))
    return query


class _Parser:
    """One text, read once from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def query(self) -> Query:
        self._require("/", "'/'", "begin with the catalog: /main/*")
        catalog = self._match(_NAME)
        if catalog is None:
            remedy = "name one catalog, as in /main/*; GET /v1/catalogs lists them"
            raise self._expected_error("the name of a catalog", remedy)
        steps: list[Step] = []
        files: str | None = None
        while files is None and self._take("/"):
            files = self._files() if steps else None
            if files is None:
                steps.append(self._step())
            if len(steps) > MAX_STEPS:
                raise self._expected_error("the end", f"use at most {MAX_STEPS} levels")
        if self._at < len(self._text) and files is not None:
            raise self._expected_error("the end", "files[...] is the last level")
        if self._at < len(self._text):
            raise self._expected_error("'/' or the end", "separate levels with '/', and put predicates in [...]")
        if not steps:
            raise self._expected_error("'/' and a level below the catalog", f"write /{catalog}/* for all that is in it")
        return Query(catalog, tuple(steps), files)

    def _files(self) -> str | None:
        """The predicate of the level ``files[...]``, as it is written; None for another level."""
        start = self._at
        level = _FILES.match(self._text, self._skip())
        if level is None:
            self._at = start
            return None
        self._at = level.end()
        predicate = _UNTIL_BRACKET.match(self._text, self._at)
        assert predicate is not None  # it matches nothing, too
        self._at = predicate.end()
        self._require("]", "a closing ]", "close every quote, and the predicate with ]")
        return predicate[0].strip()

    def _step(self) -> Step:
        wildcard = self._take("*")
        name = None if wildcard else self._match(_NAME)
        if not self._take("["):
            if name is None and not wildcard:
                raise self._expected_error("a level", 'write a name, *, or a predicate such as [name = "orders"]')
            return Step(name)
        where = self._either()
        self._require("]", "'and', 'or' or ']'", "join comparisons with and/or, and close the predicate with ]")
        return Step(name, where)

    def _either(self) -> Predicate:
        parts = [self._both()]
        while self._word("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def _both(self) -> Predicate:
        parts = [self._one()]
        while self._word("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _one(self) -> Predicate:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._expected_error("a comparison", f"nest at most {MAX_DEPTH} levels deep")
        part: Predicate
        if self._word("not"):
            part = Not(self._one())
        elif self._take("("):
            part = self._either()
            self._require(")", "')'", "close every parenthesis")
        else:
            part = self._comparison()
        self._depth -= 1
        return part

    def _comparison(self) -> Predicate:
        field = self._field()
        if self._word("exists"):
            return Exists(field)
        negated = self._word("not")
        test = self._membership(field)
        if test is not None:
            return Not(test) if negated else test
        op = None if negated else self._match(_OPERATOR)
        if op is None:
            operators = "in, like or prefix" if negated else "=, !=, <, <=, >, >=, in, like, prefix or exists"
            raise self._expected_error(operators, f'compare {field.name} with something, as in {field.name} = "eu"')
        value = self._value(field)
        return Compare(field, cast(Operator, "!=" if op == "<>" else op), value)

    def _membership(self, field: Field) -> Predicate | None:
        if self._word("like"):
            return Like(field, self._string(field))
        if self._word("prefix"):
            return Prefix(field, self._string(field))
        if not self._word("in"):
            return None
        self._require("(", "'('", f'list the values, as in {field.name} in ("eu", "us")')
        values = [self._value(field)]
        while self._take(","):
            values.append(self._value(field))
            if len(values) > MAX_VALUES:
                raise self._expected_error("')'", f"list at most {MAX_VALUES} values")
        self._require(")", "',' or ')'", "separate values with commas and close the list")
        return In(field, tuple(values))

    def _field(self) -> Field:
        if self._take("`"):
            return Field(self._until("`", "the name of a property"), quoted=True)
        start = self._at
        word = self._match(_WORD)
        if word is None or word.lower() in KEYWORDS:
            remedy = "write its name; in backquotes if it is a keyword or has other characters"
            raise self._expected_error("an attribute or a property", remedy, start)
        return Field(word)

    def _value(self, field: Field) -> Value:
        start = self._skip()
        value = self._literal()
        required = None if field.quoted else TYPES.get(field.name)
        if required is not None and type(value) is not required:
            raise self._expected_error(_KINDS[required], f"{field.name} is compared with {_KINDS[required]}", start)
        return value

    def _literal(self) -> Value:
        if self._text[self._at : self._at + 1] in ('"', "'"):
            self._at += 1
            return self._until(self._text[self._at - 1], "the text")
        number = self._match(_NUMBER)
        if number is not None:
            return float(number) if "." in number else int(number)
        for word, value in (("true", True), ("false", False)):
            if self._word(word):
                return value
        raise self._expected_error("a value", 'write a text in quotes ("eu"), a number, true or false')

    def _string(self, field: Field) -> str:
        start = self._skip()
        value = self._literal()
        if isinstance(value, str):
            return value
        raise self._expected_error(
            "a text in quotes", f'write {field.name} like "a%" or {field.name} prefix "a"', start
        )

    def _until(self, quote: str, what: str) -> str:
        """Text up to the closing ``quote``; a backslash takes a quote or a backslash as it is, else
        stays."""
        start = self._at
        content = ""
        while self._at < len(self._text):
            letter = self._text[self._at]
            self._at += 1
            if letter == quote:
                return content
            if letter == "\\" and self._text[self._at : self._at + 1] in (quote, "\\"):
                letter = self._text[self._at]
                self._at += 1
            content += letter
        raise self._expected_error(f"a closing {quote} after {what}", f"close it with {quote}", start - 1)

    def _skip(self) -> int:
        """Skips spaces; returns the position of the next character."""
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at
        return self._at

    def _take(self, mark: str) -> bool:
        """Whether ``mark`` comes next; if so, it is consumed with the space after it."""
        taken = self._text.startswith(mark, self._skip())
        if taken:
            self._at += len(mark)
            if mark != "`":
                self._skip()
        return taken

    def _require(self, mark: str, what: str, remedy: str) -> None:
        if not self._take(mark):
            raise self._expected_error(what, remedy)

    def _match(self, pattern: re.Pattern[str]) -> str | None:
        match = pattern.match(self._text, self._skip())
        if match is None:
            return None
        self._at = match.end()
        self._skip()
        return match[0]

    def _word(self, keyword: str) -> bool:
        """Whether the whole word ``keyword`` comes next, in any case; if so, it is consumed."""
        start = self._skip()
        word = self._match(_WORD)
        if word is None or word.lower() != keyword:
            self._at = start
            return False
        return True

    def _expected_error(self, what: str, remedy: str, at: int | None = None) -> InvalidRequest:
        """The error where the parser is, or at ``at``."""
        self._at = self._at if at is None else at
        rest = self._text[self._skip() :]
        position = self._at + 1
        problem = f"query, character {position}: expected {what}, found {repr(rest[:20]) if rest else 'the end'}"
        return InvalidRequest(problem, field="query", remedy=remedy, position=position)
