"""What is the same task in slightly other words, and what only looks like it."""

import pytest

from tentalis.core.near_duplicates import BANDS, are_nearly_same, hash_words, list_bands

PAGE = "Answer as our shop does: politely, in two sentences, and name the parcel's number. " * 6

NEAR = (
    ("What is the capital of France?", "what is the capital of  france"),
    ("What is the capital of France?", "Please, what is the capital of France?"),
    ("What is the capital of France?", "What is the capitol of France?"),
    ("Write a short poem about the sea and the mountains.", "Write a short poem about the sea, and the mountain."),
    (f"{PAGE} How long does a parcel take?", f"{PAGE} How long does a parcel usually take?"),
    ("Größe des Pakets?", "grösse des pakets"),
)
OTHER = (
    ("add 12 and 7", "add 12 and 8"),
    ("2 + 3", "2 * 3"),
    ("What is the capital of France?", "What is the capital of Spain?"),
    (f"{PAGE} Town: Paris", f"{PAGE} Town: London"),
    (f"{PAGE} It is right.", f"{PAGE} It is not right."),
    ("Is water heavier than ice?", "Is ice heavier than water?"),
    ("Translate: cat", "Translate: car"),
    ("Sum up the page.", "Sum up the page in exactly 3 words."),
    ("a", "b"),
)
PARAPHRASES = (
    ("Tell me the capital city of France.", "What is the capital of France?"),
    ("How long does a parcel take?", "When will my parcel be here?"),
)


@pytest.mark.parametrize(("one", "other"), NEAR)
def test_the_same_task_with_slips_and_a_few_words_more_is_found(one: str, other: str) -> None:
    assert are_nearly_same(one, other)
    assert are_nearly_same(other, one)
    assert set(list_bands(one)) & set(list_bands(other))


@pytest.mark.parametrize(("one", "other"), OTHER + PARAPHRASES)
def test_another_number_name_sign_or_order_is_another_task_and_so_is_a_paraphrase(one: str, other: str) -> None:
    assert not are_nearly_same(one, other)
    assert not are_nearly_same(other, one)


def test_unrelated_texts_have_no_band_in_common_and_stored_bands_stay_comparable() -> None:
    texts = [f"Question {n}: what do {'abcdefgh'[n % 8] * 5} and {n * 7919} have to do with it?" for n in range(40)]
    assert len({band for text in texts for band in list_bands(text)[:1]}) == len(texts)
    assert list_bands("What is the capital of France?")[:3] == GOLDEN
    assert len(list_bands("")) == BANDS + 1
    assert hash_words("A  b.") == hash_words("a B")


GOLDEN = [5900259595741262290, -1678364578023660464, -2002318209137542964]
