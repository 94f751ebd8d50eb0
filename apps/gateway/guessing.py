"""Sessions that nobody named: a conversation that opens is a session, and one that goes on is found by its answer.

Two people may open with the same words, behind one agent's token; so may a program that asks the same a thousand times.
Each opening is a session of its own. A later request belongs to the session whose latest answer it repeats, which is
the latest of one session only: so nobody's next words stand behind an answer that another was given.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from apps.gateway.capture import Captured
from apps.gateway.record import Header
from tentalis.core.conversation_delta import make_answer
from tentalis.core.conversations.threads import Thread, name_thread

SUFFIX_CHARS = 12

FindThreads = Callable[[list[str]], Iterable[tuple[str, str]]]
"""Names of threads -> (name, session key) of the sessions whose next request repeats one of them, oldest first."""


def find_guessed(
    captured: Sequence[Captured], find_threads: FindThreads
) -> tuple[list[Captured], dict[tuple[int, str, str], str]]:
    """A batch with its guessed sessions' whole keys, and the thread at which each of them now ends.

    The choices of a request stand one behind the other; what goes on from them goes on from the first.
    """
    guessed = {place: _name(one) for place, one in enumerate(captured) if one.header.get("is_guessed") and one.messages}
    if not guessed:
        return list(captured), {}
    leaves: dict[str, list[str]] = defaultdict(list)
    if wanted := sorted({thread.begun for thread in guessed.values() if thread.begun}):
        for name, key in find_threads(wanted):
            leaves[name].append(key)
    keys: dict[str, str] = {}
    ends: dict[tuple[int, str, str], str] = {}
    found = list(captured)
    for place, thread in guessed.items():
        header: Header = captured[place].header
        if header["id"] not in keys:
            claimed = _claim(leaves, thread)
            key = claimed or f"{header['session']}-{header['id'][:SUFFIX_CHARS]}"
            keys[header["id"]] = key
            if thread.ended:
                leaves[thread.ended].append(key)
                ends[header["project"], key, header["agent"]] = thread.ended
            elif claimed:  # nothing was answered: it can be asked again
                leaves[thread.begun].append(key)
        found[place] = captured[place]._replace(header={**header, "session": keys[header["id"]]})
    return found, ends


def _claim(leaves: Mapping[str, list[str]], thread: Thread) -> str:
    """The key of the session that a request goes on from, which then ends elsewhere; "" where there is none."""
    keys = leaves.get(thread.begun, []) if thread.begun else []
    return keys.pop(0) if keys else ""


def _name(one: Captured) -> Thread:
    header = one.header
    answer = make_answer(one.text, one.tool_calls) if header["status"] < 400 and not one.is_truncated else None
    seed = "\0".join([str(header["project"]), header["agent"], header["session"]])
    return name_thread(seed, one.messages, answer)
