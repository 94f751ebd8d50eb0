"""How long texts may be and how many things asked for: each limit once, for service, form, REST and tool.

Limits of requests and connections stand in `edge_limits.py`; those of settings with their fields (`checked.py`).
"""

import re

NAME_OF_VERSIONS = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,98}[a-z0-9])?")
"""Of what has versions: a skill, a check."""
MAX_PROMPT_CHARS = 100_000
"""Of a task, and of what an agent hands in for it: an answer, a step, a tool's result."""
MAX_SYSTEM_PROMPT_CHARS = 50_000
MAX_GUIDELINES_CHARS = 100_000
"""Of a project's rubric, and of its constitution."""
MAX_JUDGEMENT_CHARS = 20_000
"""Of a judgement's words and of an edited answer; of what a supervised agent wants to say."""
MAX_COMMENT_CHARS = 4_000
"""Of the words on one step; of what a person tells a supervised agent to think of."""
MAX_REASON_CHARS = 300
"""Of why something was done: skipped, closed, taken back, refused, failed."""
MAX_ABOUT_CHARS = 500
"""Of what a check or a taskset is for."""
MAX_APPEAL_CHARS = 200
"""Of why a judgement is held for wrong: it is stored within a review's reason, beside who said it."""
MAX_API_KEY_CHARS = 2_000
MAX_END_USER_CHARS = 200
MAX_HANDED_IN_STEPS = 500
"""Of an attempt that an agent did outside."""
MAX_GROUP = 64
"""Attempts at a task."""
MIN_ENSEMBLE_MEMBERS, MAX_ENSEMBLE_MEMBERS = 2, 8
ENSEMBLE_WAIT_S, MAX_ENSEMBLE_WAIT_S = 30, 600
"""For the others, once one member has answered: where nobody says otherwise, and at most."""
MAX_BATCH_TASKS = 100_000
MAX_HELD_OUT_PERCENT = 50
MAX_TRIED_PERCENT = 50
"""Of a worker's new tasks that a canary or a shadow does."""
MAX_STEPS_SPOKEN_OF = 2_000
"""That one judgement speaks of."""
