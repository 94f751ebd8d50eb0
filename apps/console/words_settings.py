"""What the settings page calls things: (label, help) of a field, words of a choice, title and purpose of a card."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Words = str | Promise

SECTION_WORDS: dict[str, tuple[Words, Words]] = {
    "general": (_("Project"), _("What it is called, what good work is, how much is tried and gathered.")),
    "review_policy": (_("Who reviews what"), _("Which tasks wait for a judgement, whose, and for how long.")),
    "gate_policy": (_("Promotion gate"), _("What an adapter must show before it serves.")),
    "recipe": (_("Training recipe"), _("How a batch of judged work changes an adapter.")),
    "training_policy": (_("When to train"), _("Hours, quiet, and how much of the box the project may have.")),
    "session_policy": (
        _("Conversations"),
        _("How people's words to agents are learnt from, and what is masked."),
    ),
    "weight_profiles": (
        _("Weights of the scorers"),
        _("What an attempt's score is made of. The weights of an environment sum to 1; empty takes the built-in ones."),
    ),
}

FIELD_WORDS: dict[str, tuple[Words, Words]] = {
    # when to train
    "timezone": (_("Time zone"), _("For example Europe/Berlin; hours are in it.")),
    "hours": (_("Hours"), _("Such as mon-fri 22:00-06:00, separated by commas. Empty: always.")),
    "calendar": (_("Calendar"), _("An iCalendar text (.ics). Empty: none.")),
    "calendar_means": (_("An event of the calendar means"), ""),
    "quiet_s": (_("Quiet before training"), _("Seconds without work in the project. 0: at once.")),
    "pauses_outside": (_("Pause when the hours end"), _("Else a run ends what it began.")),
    "gpu_s_per_day": (_("Seconds of training a day"), _("More waits. Empty: no limit.")),
    "runs_per_day": (_("Runs a day"), _("More wait. Empty: no limit.")),
    "share": (_("Share"), _("Among projects that wait for one box: twice the share, twice the time.")),
    # conversations
    "learn": (_("Learn from conversations"), _("What people say next becomes feedback. Off: they are only kept.")),
    "idle_s": (_("Silence that ends a conversation"), _("In seconds.")),
    "judge": (_("Ask a model where rules cannot tell"), ""),
    "votes": (_("Votes"), _("How often the model is asked of one turn; an odd number.")),
    "redaction": (_("Personal data and secrets"), _("In what is kept for training; conversations stay as they were.")),
    "names": (_("Names to mask"), _("Separated by commas.")),
    # who reviews what
    "who": (_("Reviewers"), ""),
    "rate": (_("Share of tasks reviewed"), _("From 0 to 1; uncertain ones are reviewed besides.")),
    "uncertain_spread": (_("Scorers disagree from"), _("Votes this far apart call a reviewer. Empty: never.")),
    "uncertain_margin": (_("Score is unclear within"), _("This close to 0.5 calls a reviewer. Empty: never.")),
    "environments": (_("Environments"), _("Where this holds.")),
    "patience_s": (_("Patience, in seconds"), _("How long a review waits; 86400 is a day.")),
    "on_timeout": (_("When nobody came"), ""),
    "double_review_rate": (_("Share reviewed twice"), _("Blind second opinions, from 0 to 1: they measure agreement.")),
    "gold_rate": (
        _("Share of known answers"),
        _("Reviews whose right judgement is known, from 0 to 1; 0.05 is usual."),
    ),
    "undo_s": (
        _("Time to undo, in seconds"),
        _("So long a judgement may be taken back; only then it is learned from."),
    ),
    "blind": (_("Blind"), _("People judge before they see who made an answer, its scores and what others said.")),
    "ai_manager": (_("AI manager"), _("Who judges where an AI is asked.")),
    "model": (_("Model of the AI manager"), _("Empty: the installation's.")),
    # gate
    "margin": (_("Allowed loss"), _("How much worse than the serving adapter an update may be, as a share.")),
    "second_margin": (_("Allowed loss, second metric"), ""),
    "confidence": (_("Confidence"), _("Of the intervals, from 0.5 to 1.")),
    "power": (_("Power"), _("With which a difference worth having is found.")),
    "anchor_patience": (
        _("Updates without proof"),
        _("After so many, the comparison with the anchor is inconclusive."),
    ),
    "panel_size": (_("Held-out tasks"), _("How many an adapter is measured on.")),
    "panel_lifetime": (_("Updates on the same held-out tasks"), _("Then others are drawn.")),
    "fresh_size": (_("Held-out tasks drawn anew"), _("For each adapter alone: nothing can have been trained on them.")),
    "sweep_size": (_("Tasks at other strengths"), _("How many an adapter is tried on, stronger and weaker.")),
    "skills_size": (_("Tasks of other skills"), _("That no reward sees and the base model can do.")),
    "skills_margin": (_("Allowed loss of skills"), _("As a share of those tasks.")),
    "canary_percent": (
        _("Canary, in per cent"),
        _("Share of the work a new adapter gets first, 0 to 50; 0: all at once."),
    ),
    # recipe
    "algorithm": (_("Algorithm"), ""),
    "lora_rank": (_("LoRA rank"), ""),
    "lora_alpha": (_("LoRA alpha"), _("The adapter's scale is alpha / rank.")),
    "target_modules": (_("Layers that learn"), _("Names, separated by commas.")),
    "learning_rate": (_("Learning rate"), ""),
    "beta1": (_("AdamW beta 1"), ""),
    "beta2": (_("AdamW beta 2"), ""),
    "weight_decay": (_("Weight decay"), ""),
    "minibatches": (_("Updates in a pass"), ""),
    "epochs": (_("Passes over a batch"), ""),
    "clip_low": (_("Clip below"), _("A token's ratio is clipped to 1 minus this…")),
    "clip_high": (_("Clip above"), _("…and 1 plus this.")),
    "dual_clip": (_("Dual clip"), _("Cap on the loss of a token with a negative advantage. Empty: none.")),
    "singles": (_("Tasks attempted once"), _("Compared with each other over the batch, or not at all.")),
    "std_floor": (_("Floor of the spread"), _("Added to what advantages are divided by.")),
    "kl_coef": (_("Pull towards the base model"), _("Weight of the KL term; 0 computes none.")),
    "entropy_coef": (_("Entropy bonus"), ""),
    "max_grad_norm": (_("Largest gradient"), ""),
    "w_rl": (_("Weight of the reward"), ""),
    "w_opd": (_("Weight of the hints"), ""),
    "step_mix": (_("Share of the steps' scores"), _("0: only the outcome counts; 1: only the steps.")),
    "opd_mode": (_("How hints are learned"), ""),
    "opd_clip": (_("Largest pull of a hint"), _("In nats.")),
    "teacher": (_("Teacher"), _("`base`, or the directory of a model with the same tokenizer.")),
    "max_staleness": (_("Oldest version learned from"), _("In adapter versions.")),
    "sft_temperature": (_("Imitation temperature"), ""),
    "sft_weight_max": (_("Imitation, largest weight"), ""),
}

CHOICE_WORDS: dict[str, Words] = {
    "closed": _("No training then"),
    "open": _("Training only then"),
    "batch": _("Compared over the batch"),
    "mask": _("Masked; what holds some is not trained on"),
    "mask_loss_only": _("Masked in texts; answers that hold some teach nothing"),
    "none": _("Nobody"),
    "ai": _("An AI manager"),
    "human": _("A person"),
    "both": _("An AI manager and a person"),
    "learn_without": _("Learn from the scores alone"),
    "fail": _("Fail the task"),
    "": _("The usual one"),
    "rule-book": _("The desk's rule book"),
    "llm": _("A language model"),
    "rubric": _("The rubric, item by item; it can learn from audits"),
    "grpo": "GRPO",
    "dr_grpo": "Dr. GRPO",
    "cispo": "CISPO",
    "reward_weighted_sft": _("Imitation, weighted by reward"),
    "lightweight": _("Kept as text"),
    "logprobs": _("Word by word, from a teacher that reads them"),
}
