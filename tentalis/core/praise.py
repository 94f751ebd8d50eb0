"""Words that praise or thank and say nothing else, in some languages: a judgement, and no rule to learn."""

import re
from typing import Final

# English, German, French, Spanish, Italian, Portuguese, Dutch, Polish, Russian, Turkish, Arabic; then Chinese, Japanese
# and Korean, which write several words as one
_PRAISE_TEXT: Final = """
good great perfect excellent nice thanks thank thx ty cheers correct right awesome brilliant wonderful fantastic
amazing superb fine ok okay yes yep lgtm done bravo kudos congrats congratulations impressive like love
gut gute guter gutes super toll prima danke dankeschön perfekt richtig korrekt genau klasse ausgezeichnet
hervorragend wunderbar passt stimmt schön
merci parfait parfaite bien bon bonne excellente génial exact exactement
gracias bueno buena perfecto perfecta excelente genial correcto correcta
grazie perfetto perfetta ottimo ottima bene bravissimo giusto corretto buono
obrigado obrigada perfeito perfeita ótimo ótima bom boa certo correto
goed bedankt dank mooi juist uitstekend
dobrze dziękuję dzięki świetnie idealnie dobra
спасибо отлично хорошо молодец верно правильно прекрасно идеально
teşekkürler teşekkür mükemmel harika güzel iyi doğru süper
شكرا ممتاز رائع جيد أحسنت صحيح
好 好的 很好 非常好 太好了 太棒了 不错 完美 正确 对 谢谢 多谢 做得好
ありがとう ありがとうございます 完璧 完璧です 素晴らしい 素晴らしいです
良い いいね いいです 正解 正解です よくできました
좋아요 좋습니다 감사합니다 고마워요 고맙습니다 완벽해요 완벽합니다 훌륭해요 훌륭합니다
잘했어요 정확해요 맞아요
"""
_BESIDE_TEXT: Final = """
very so really job work answer you that this it is it's that's was much all a an just well how for me
sehr vielen das ist es ja alles arbeit gemacht
très beaucoup c'est travail tout est
muy muchas está todo trabajo
molto mille lavoro è tutto
muito tudo trabalho
heel je werk
bardzo robota
очень всё
çok ederim
جدا
"""
_PRAISE: Final = frozenset(_PRAISE_TEXT.split())
_BESIDE: Final = frozenset(_BESIDE_TEXT.split())
"""What stands beside praise and is none by itself."""
_WORD: Final = re.compile(r"[\w']+")


def is_praise_alone(text: str) -> bool:
    """Whether a text praises or thanks and says nothing else, or holds no word at all; languages as listed here.

    One word that is not listed makes it something said, so that no rule is lost for beginning with "good".
    """
    words = set(_WORD.findall(text.casefold().replace("\u2019", "'")))
    return words <= _PRAISE | _BESIDE and (not words or bool(words & _PRAISE))
