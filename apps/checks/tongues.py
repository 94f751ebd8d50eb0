"""Which language a text is written in, where it is long enough to tell."""

from collections.abc import Collection
from functools import lru_cache
from typing import Any, Final, NamedTuple

_CODES: Final = """
af am an ar as az ba be bg bn br bs ca cs cy da de dz el en eo es et eu fa fi fo fr fy ga gd gl gu ha he hi hr
ht hu hy id ig is it ja jv ka kk km kn ko ku ky la lb lg ln lo lt lv mg mk ml mn mr ms mt my ne nl nn no oc om
or pa pl ps pt qu ro ru rw sa se si sk sl sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk ur uz vi vo wa xh
yo zh zu
"""
LANGUAGES: Final = frozenset(_CODES.split())
"""Of ISO 639-1, as the library knows them."""
LEAST_LETTERS: Final = 15
MOST_CHARS: Final = 20_000
"""So much of a text is looked at."""
SURE: Final = 0.8


class Guess(NamedTuple):
    """Args:
    share: probability that the text is in one of the languages, where it is clear; None: nobody can tell.
    """

    share: float | None
    words: str


def guess(text: str, wanted: Collection[str]) -> Guess:
    """Whether a text is in one of the languages, by ISO 639-1 codes."""
    beginning = text[:MOST_CHARS]
    letters = sum(sign.isalpha() for sign in beginning)
    if letters < LEAST_LETTERS:
        return Guess(None, f"too short to tell its language: wanted {LEAST_LETTERS} letters, found {letters}")
    ranked = _open().rank(beginning)
    share = float(sum(chance for code, chance in ranked if code in wanted))
    if 1 - SURE < share < SURE:
        return Guess(None, f"its language is not clear: {', '.join(code for code, _ in ranked[:2])}")
    return Guess(share, f"the answer is in {ranked[0][0]}")


@lru_cache(maxsize=1)
def _open() -> Any:
    """A second and 100 MB, where somebody asks for it."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
