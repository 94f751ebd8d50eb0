"""Praise and thanks are told from words that say something, in several languages."""

import pytest

from tentalis.core.praise import is_praise_alone


@pytest.mark.parametrize(
    "text",
    [
        "Good.", "Thanks", "perfect", "Thank you very much!", "OK, that's it: perfect.", "Well done!", "👍", "...",
        "Gut gemacht!", "Sehr gut, vielen Dank.", "Danke schön", "Parfait, merci beaucoup", "C’est très bien",
        "Muy bien, gracias", "Ottimo lavoro, grazie mille", "Muito obrigado", "Heel goed", "Bardzo dobrze", "Спасибо!",
        "Очень хорошо", "Çok güzel, teşekkürler",
        "很好。", "谢谢！", "完璧です", "ありがとうございます", "감사합니다", "ممتاز",
    ],
)  # fmt: skip
def test_praise_alone_names_no_rule(text: str) -> None:
    assert is_praise_alone(text)


@pytest.mark.parametrize(
    "text",
    [
        "Ask the stock room, not the list.", "use fee", "Good, but charge the fee after 14 days.", "Correct the unit.",
        "Nice, and shorter next time", "no", "Not good", "7", "Perfect for new clients; vip clients get a gift.",
        "Die Einheit fehlt.", "Gut, aber die Summe stimmt nicht", "Il manque l'unité", "Falta la unidad",
        "Manca l'unità", "Faltou a unidade", "De eenheid ontbreekt", "Brakuje jednostki", "Не хватает единицы",
        "Birim eksik", "缺少单位", "単位がありません", "단위가 없습니다", "الوحدة ناقصة",
    ],
)  # fmt: skip
def test_what_says_something_is_no_praise_alone(text: str) -> None:
    assert not is_praise_alone(text)
