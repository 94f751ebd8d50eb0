"""What the gates around a training ask and its monitors watch: what each is for, and what to do when it objects."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from apps.console.words_facts import Words


class Remedy(NamedTuple):
    """What is asked or watched, and what a person does about an objection."""

    about: Words
    todo: Words


class Pill(NamedTuple):
    """How a state is shown."""

    look: str
    label: Words


UNKNOWN = Remedy("", "")

GATES: Mapping[str, Remedy] = {
    "G1": Remedy(
        _("Enough tasks were solved to imitate"),
        _("Let more tasks be solved or edited, or lower “Minimum solved tasks for imitation” in the settings."),
    ),
    "G2": Remedy(
        _("It trains on the very tokens that were answered"),
        _("The model server's tokenizer or chat template changed since: let the worker answer anew."),
    ),
    "G3": Remedy(
        _("No task is in two batches"),
        _("A task was reopened or answered twice: leave this run; the next batch takes other tasks."),
    ),
    "G4": Remedy(
        _("It holds on what it was not trained on"),
        _("It overfits: fewer epochs, a lower learning rate, or more tasks in a batch."),
    ),
    "G5": Remedy(
        _("It did not learn to be done fast"),
        _("Look whether short answers were rewarded: judge some by hand, or add a KL term."),
    ),
    "G6": Remedy(
        _("All attempts began from the same clean place"),
        _("The environment keeps something between attempts, or does not say what it starts from: mend its reset."),
    ),
    "G7": Remedy(
        _("Losses and gradients stayed finite"),
        _("Lower the learning rate or the maximum gradient norm."),
    ),
    "G8": Remedy(
        _("It trains on nothing that it is measured on"),
        _("Held-out tasks were given to the worker as work: leave this run, and keep them out of the next batch."),
    ),
    "G9": Remedy(
        _("What the base model could do is kept"),
        _("Add a KL term or more kinds of tasks to the batch; such an adapter is refused."),
    ),
    "G10": Remedy(
        _("The base model is not quantised"),
        _("Name the full-precision base model as the worker's base directory."),
    ),
    "G11": Remedy(
        _("The base weights are here, and are the model that answered"),
        _("Change the worker: give it the directory of the model that its server serves. Then try the run again."),
    ),
    "G12": Remedy(
        _("The learning rate fits the size of the model"),
        _("Lower the learning rate of the project's recipe, or leave it empty: then it follows the model's size."),
    ),
    "G13": Remedy(
        _("Where it worked, right can be told from wrong"),
        _("Examine the environment (`tentalis world doctor NAME`), mend what is found, and try the run again."),
    ),
}

EXAMINED: Mapping[str, Remedy] = {
    "tasks": Remedy(
        _("There are tasks to try"),
        _("Name some (`tentalis world doctor NAME --prompt TEXT`), or let it make some up."),
    ),
    "held out": Remedy(
        _("No task to train on is one to measure on"),
        _("Let the environment say of a task by its text alone whether it is held out, and draw none of those."),
    ),
    "beginnings": Remedy(
        _("The same task and seed begin alike, whatever was done before or beside"),
        _("Give each try a state of its own, and make it from the task and the seed alone."),
    ),
    "oracle": Remedy(
        _("Its own right way is worth 1"), _("Mend what judges, or the solution that the environment knows.")
    ),
    "idleness": Remedy(_("Doing nothing is worth nothing"), _("Judge what was done, and not that nothing is broken.")),
    "guesses": Remedy(
        _("Guessing is worth no more than chance"),
        _("Ask for more than a choice of few, or let the environment say what luck is worth."),
    ),
    "garbage": Remedy(
        _("Answers and calls that mean nothing are worth nothing"), _("Refuse what cannot be read, and judge the rest.")
    ),
    "tampering": Remedy(
        _("Who changes tests or rewards gains nothing"),
        _("Keep what decides where no try can write, and judge from outside."),
    ),
    "cheats": Remedy(
        _("What the environment itself knows as cheating is worth nothing"),
        _("Judge the end and not how it looks: what it names as cheating was paid for."),
    ),
    "oracle again": Remedy(
        _("Its own right way is still worth 1 behind all of that"),
        _("Something lasts from one try to the next: give each a state of its own."),
    ),
    "verifier": Remedy(
        _("The same end is judged the same each time"), _("Take chance, time and order out of what judges.")
    ),
    "spread": Remedy(
        _("Right and wrong tries are told apart"),
        _("Judge more closely: from a reward that is always the same nobody learns."),
    ),
    "what is shown": Remedy(
        _("Nothing that is shown tells what is right"),
        _("Take rewards, references and solutions out of what tries can read."),
    ),
}
"""Of the examination of an environment, by the names of its checks."""

STANDINGS: Mapping[str, Pill] = {
    "passed": Pill("verified", _("May train")),
    "allowed": Pill("paused", _("Failed, allowed")),
    "failed": Pill("failed", _("Failed")),
    "changed": Pill("paused", _("Changed since")),
    "never": Pill("queued", _("Not examined")),
    "exempt": Pill("skipped", _("Nothing to examine")),
}

ADMISSIONS: Mapping[str, Pill] = {
    "queued": Pill("queued", _("Queued")),
    "running": Pill("running", _("Running")),
    "admitted": Pill("done", _("Admitted")),
    "quarantined": Pill("failed", _("Quarantined")),
    "failed": Pill("paused", _("Not found out")),
}

ALARMS: Mapping[str, Remedy] = {
    "not_finite": Remedy(_("Loss or gradients are not finite"), _("Lower the learning rate.")),
    "entropy_ratio": Remedy(
        _("Entropy"),
        _("A fall says that it tries nothing new: add an entropy bonus. A rise says that it forgets: lower the rate."),
    ),
    "length_drift": Remedy(_("Length of answers"), _("Look whether length itself is rewarded.")),
    "clip_fraction": Remedy(_("Share of clipped tokens"), _("Lower the learning rate, or use fewer epochs.")),
    "max_ratio": Remedy(
        _("Largest probability ratio of a token"),
        _("Use truncated weights, or learn from fresher attempts (maximum staleness)."),
    ),
    "divergence": Remedy(_("KL to the policy that answered"), _("Lower the learning rate, or use fewer epochs.")),
    "displacement": Remedy(
        _("Rewarded answers that became less likely"),
        _("It unlearns what it is rewarded for: use fewer epochs, narrower clipping, or a lower learning rate."),
    ),
    "one_side": Remedy(
        _("Good and bad answers of KTO"),
        _("Have both kinds judged: what was rewarded with .5 or more is good, the rest bad."),
    ),
    "side_weights": Remedy(
        _("Weight of KTO's good and bad answers"),
        _("Bring the recipe's two KTO weights nearer: the desirable one from 1 to 1.33 times the undesirable one."),
    ),
    "unread_hints": Remedy(
        _("Hints that the model does not read"),
        _("They teach it noise: leave them out (hint loss weight 0), or take a base that follows instructions."),
    ),
    "base_divergence": Remedy(_("KL to the base model"), _("Raise the KL coefficient.")),
    "staleness": Remedy(
        _("Staleness of the attempts"), _("Train sooner: smaller batches, or more hours; too old ones are left out.")
    ),
    "proxy_gap": Remedy(
        _("Gap between reward and verified outcome"),
        _("It may be paid for other things than being right: audit some answers, and give scorers less weight."),
    ),
    "self_overlap": Remedy(_("Similarity between answers"), _("Look at its answers; roll back if they collapsed.")),
    "repeated_words": Remedy(
        _("Words that its answers say again"),
        _("It may be paid for words alone: look at its answers, and let checks say how long and in which order."),
    ),
    "base_distance": Remedy(
        _("How unlikely its answers are to the base model"),
        _("It may be paid for words in a heap: look at its answers. Where they are right, allow more in the policy."),
    ),
    "missing_end": Remedy(_("Answers that were cut off"), _("Look at its answers; roll back if they collapsed.")),
    "entropy_jump": Remedy(_("Entropy of its answers"), _("Look at its answers; roll back if they collapsed.")),
    "broken_tags": Remedy(_("Answers with broken markup"), _("Look at its answers; roll back if they collapsed.")),
    "logprob_drift": Remedy(
        _("Whether the intended model serves"),
        _("The model server serves other weights: restart it, nothing trains until then."),
    ),
}


class GateAnswer(NamedTuple):
    """A gate's answer as a page shows it."""

    gate: str
    passed: bool | None
    words: str
    asked: Remedy


class Raised(NamedTuple):
    """An alarm as a page shows it; `update` None where it is of the whole run."""

    words: str
    update: int | None
    asked: Remedy


def explain_gates(gates: Sequence[Mapping[str, Any]]) -> list[GateAnswer]:
    """In the order of their numbers, whenever they were asked."""
    answers = [GateAnswer(one["gate"], one["passed"], one["words"], GATES.get(one["gate"], UNKNOWN)) for one in gates]
    return sorted(answers, key=lambda one: (len(one.gate), one.gate))


def explain_alarms(alarms: Sequence[Mapping[str, Any]]) -> list[Raised]:
    """In the order in which they were raised."""
    return [Raised(one["words"], one.get("update"), ALARMS.get(one["detector"], UNKNOWN)) for one in alarms]
