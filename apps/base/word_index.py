"""Words of columns, for indexes and for what asks them: no language is assumed, and any text can be asked for."""

import re
from typing import Any

from django.contrib.postgres.search import SearchQuery, SearchVectorField
from django.db.models import Func, JSONField, Q, QuerySet
from django.db.models.sql.compiler import SQLCompiler

from apps.base.errors import BadInputError

MOST_INDEXED = 10_000
"""Characters of a column, from its beginning; a vector of more than a megabyte would refuse the row itself."""
MOST_WORDS = 12
MOST_TYPED = 300
LONGEST_WORD = 100
SHORTEST_START = 3
JOINING = "-_/.:@&+~<>=?#\\"
"""Characters that Postgres' parser makes one word of two of; each stands for a blank."""
_SPLIT = re.compile(r"[\W_]+")


class Words(Func):
    """The words of text columns, as Postgres' `simple` dictionary tells them: a `tsvector` that an index can hold.

    The same text in an index and in a query, without parameters, so that the planner sees that they are the same.
    """

    output_field = SearchVectorField()

    def as_sql(self, compiler: SQLCompiler, connection: Any, *args: Any, **extra: Any) -> tuple[str, Any]:
        columns: list[str] = []
        params: list[Any] = []
        for one in self.get_source_expressions():
            sql, own = compiler.compile(one)
            columns.append(f"left(({sql})::text, {MOST_INDEXED})")
            params += own
        text = " || ' ' || ".join(columns)
        blanks = " " * len(JOINING)
        return f"to_tsvector('simple', translate(replace({text}, '\\n', ' '), '{JOINING}', '{blanks}'))", params


class MessageContents(Func):
    """What messages say, without who said it: of a list as chats write it, each `content`, as JSON."""

    output_field = JSONField()
    template = "jsonb_path_query_array(%(expressions)s, '$[*].content')"


def split_words(text: str) -> list[str]:
    """The words that are looked for."""
    return [word[:LONGEST_WORD] for word in _SPLIT.split(text) if word][:MOST_WORDS]


def read_words(text: str) -> SearchQuery:
    """What finds all of the words of a text, in any order; of three letters and more the beginning is enough.

    Raises:
        BadInputError: a text without words, or too long a one.
    """
    if len(text) > MOST_TYPED or "\0" in text:
        raise BadInputError(f"wanted at most {MOST_TYPED} characters without NUL, found {len(text)}")
    words = split_words(text)
    if not words:
        raise BadInputError(f"wanted words or numbers to look for, found {text[:40]!r}")
    asked = " & ".join(f"'{word}'{':*' if len(word) >= SHORTEST_START else ''}" for word in words)
    return SearchQuery(asked, config="simple", search_type="raw")


def with_words(
    rows: QuerySet[Any], columns: tuple[Any, ...], text: str, *, indexed: Q | None = None, others: Q | None = None
) -> QuerySet[Any]:
    """Rows whose columns hold all words of a text, on the index of `Words(*columns)`.

    Args:
        indexed: which rows stand in the index, where not all do; others: the rest, which is looked through.
    Raises:
        BadInputError: a text without words.
    """
    try:
        wanted = read_words(text)
    except BadInputError as error:
        raise BadInputError.at("text", str(error)) from None
    found: QuerySet[Any] = rows.alias(words=Words(*columns)).filter(words=wanted)
    if indexed is None or others is None:
        return found
    ids = found.filter(indexed).values("pk").union(found.filter(others).values("pk"))
    return rows.filter(pk__in=ids)
