"""English words by which people show what they think of an answer. Data: other languages are left to a judge.

Phrases are lower case, matched at word boundaries.
"""

from typing import Final

THANKS: Final = (
    "thanks", "thank you", "thx", "ty", "cheers", "much appreciated", "appreciate it",
)  # fmt: skip
ACCEPTS: Final = (
    "perfect", "great", "excellent", "awesome", "exactly", "works", "it works", "this works", "that works", "works now",
    "it works now", "that's right", "that is right", "that's correct", "that is correct", "correct", "right",
    "well done", "good job", "nice", "brilliant", "just what i needed", "exactly what i needed",
    "looks good", "lgtm", "solved",
    "good answer", "you're right", "you are right", "that's it", "that is it", "not bad", "that's perfect",
    "that's great", "this is great", "this is perfect", "good", "very good", "wonderful", "fantastic",
)  # fmt: skip
"""How approval begins."""
NO_PRAISE: Final = (
    "good morning", "good afternoon", "good evening", "good day", "good night", "nice to meet you", "good question",
    "good try", "nice try", "good attempt", "nice attempt", "good effort", "good start", "nice start", "good guess",
    "correct answer", "right answer", "correct one", "right one", "correct version", "right version",
    "correct the", "correct this", "correct that", "correct it", "correct my", "correct your", "correct me",
    "right now", "right away", "right-click", "right click", "perfect the", "works only", "works if", "works except",
)  # fmt: skip
"""What begins like approval and is a greeting, a consolation, an order, or the right answer."""
AGREES: Final = ("yes", "yep", "yeah", "ok", "okay", "wow", "ah", "oh", "cool")
"""What may stand before approval, and is none by itself."""
CORRECTS: Final = (
    "that's wrong", "that is wrong", "this is wrong", "it's wrong", "it is wrong", "wrong answer", "that's not",
    "that is not", "this is not", "not right", "not correct", "incorrect", "isn't right", "isn't correct",
    "is not right", "is not correct", "not what i", "you forgot", "you missed", "you misunderstood", "i meant",
    "i said", "i asked for", "it should be", "that should be", "this should be", "answer should be",
    "it should have been", "that should have been", "should have been", "it must be", "doesn't work", "does not work",
    "didn't work", "did not work", "still fails", "still broken", "not working", "your mistake", "you made a mistake",
    "you made an error", "try again", "not helpful", "useless", "that's false", "not true",
)  # fmt: skip
DENIES: Final = ("no", "nope", "nah", "not quite", "not really", "wrong", "actually", "hmm no")
"""How a correction begins."""
HARMLESS: Final = (
    "no problem", "no worries", "no thanks", "no thank you", "no need", "no questions", "nothing else", "no more",
    "no further", "not bad", "nothing wrong", "no mistake", "no error", "thanks in advance", "thank you in advance",
)  # fmt: skip
"""What sounds like a refusal, or like thanks for an answer, and is none."""
GIVES_UP: Final = (
    "never mind", "nevermind", "forget it", "forget about it", "i'll do it myself", "i will do it myself",
    "i'll ask someone", "i give up", "cancel that", "stop it", "skip it", "leave it",
)  # fmt: skip
TURNS: Final = ("but", "however", "though", "although", "except", "apart from", "only that", "still")
"""After one of these, praise is not the whole word."""
TELLS: Final = (
    "it should be", "it should have been", "should be", "should have been", "the right answer is",
    "the correct answer is", "the answer is", "correct answer:", "right answer:", "the right one is",
    "the correct one is", "it must be", "what i wanted is", "i wanted",
)  # fmt: skip
"""What stands before the right answer."""
TOOL_ERRORS: Final = (
    "error", "traceback (most recent call last)", "exception", "fatal:", "command not found", "permission denied",
    "no such file or directory", "timed out", "timeout", "failed", "failure", "unknown tool", "there is no tool",
)  # fmt: skip
"""How a tool's result begins that is none."""
