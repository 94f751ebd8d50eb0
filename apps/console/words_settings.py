"""What the settings page calls things: (label, help) of a field, words of a choice, title and purpose of a card."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Words = str | Promise

SECTION_WORDS: dict[str, tuple[Words, Words]] = {
    "general": (_("Project"), _("Its name, what good work is, and how many tasks and attempts make a batch.")),
    "review_policy": (_("Who reviews what"), _("Which tasks wait for a judgement, whose, and for how long.")),
    "gate_policy": (_("Promotion gate"), _("What an adapter must show before it serves.")),
    "recipe": (_("Training recipe"), _("How a batch of judged work trains an adapter.")),
    "training_policy": (_("When to train"), _("Hours, idle time, and how much training time the project may use.")),
    "session_policy": (
        _("Conversations"),
        _("How people's replies to agents are learned from, and what is masked."),
    ),
    "weight_profiles": (
        _("Weights of the scorers"),
        _("How the scorers make up an attempt's score. The weights of an environment sum to 1; empty: built-in ones."),
    ),
}

FIELD_WORDS: dict[str, tuple[Words, Words]] = {
    # recipe: what came with more algorithms
    "precision": (_("Precision"), _("What the frozen model computes in: bfloat16 on GPUs is faster.")),
    "schedule": (
        _("Learning rate schedule"),
        _("How the learning rate falls over the updates of a run; it begins anew with the next."),
    ),
    "warmup_updates": (
        _("Warm-up updates"),
        _("Over so many updates of a new adapter, in one run or several, the learning rate rises. 0: none."),
    ),
    "sequence_clip_low": (
        _("Sequence clip, low"),
        _("GSPO clips the mean ratio of a whole answer below 1 minus this."),
    ),
    "sequence_clip_high": (_("Sequence clip, high"), _("The same above 1 plus this.")),
    "cut_answers_teach": (
        _("Learn from answers that were cut"),
        _("Off: an answer that ran into its length limit is compared with the others, and not learned from."),
    ),
    "importance_cap": (
        _("Importance weight cap"),
        _("Truncated importance weights are cut at this. Empty: ratios are taken to the policy that answered."),
    ),
    "answer_tokens": (
        _("Maximum answer length"),
        _("In tokens. Dr. GRPO divides by it, and the overlong buffer ends there."),
    ),
    "overlong_buffer": (
        _("Overlong buffer"),
        _("The reward falls over this many tokens before the maximum answer length; 0: it does not."),
    ),
    "overlong_penalty": (_("Overlong penalty"), _("By how much the reward falls at most.")),
    "rehearsal_texts": (
        _("Texts of its own to rehearse"),
        _("So many texts by the base model itself are imitated beside what is shown: it forgets less. 0: none."),
    ),
    "most_voice_share": (
        _("Largest share of one reviewer"),
        _("Of a batch's weight, where several judged it: rollouts of whoever judged more count less. 1: no limit."),
    ),
    "refill": (
        _("Dynamic sampling: largest refill"),
        _("A DAPO batch takes at most this many times its number of tasks while too few of them differ in reward."),
    ),
    "opd_top_k": (
        _("Top-K tokens"),
        _("How many of the likeliest tokens are compared at each place, where hints are learned that way."),
    ),
    "opd_hints": (_("Hint candidates"), _("At most this many hints are tried; the best one teaches.")),
    "opd_top_k_clip": (
        _("Top-K advantage clip"),
        _("In nats. The teacher's gap on the top-K tokens is clipped to it."),
    ),
    "beta": (
        _("Beta"),
        _("Of DPO, IPO (tau) and KTO: the higher, the closer the policy stays to the one the run starts from."),
    ),
    "nll_coef": (
        _("NLL coefficient"),
        _("Weight of the chosen answer's negative log-likelihood beside the preference loss."),
    ),
    "kto_desirable": (_("KTO desirable weight"), _("Weight of good answers in KTO.")),
    "kto_undesirable": (_("KTO undesirable weight"), _("Weight of bad answers in KTO.")),
    "held_out_share": (
        _("Validation share"),
        _("Share of the tasks that preferences and demonstrations are validated on instead of trained on."),
    ),
    "least_pair_accuracy": (
        _("Minimum pair accuracy"),
        _("Share of pairs of which more must be ordered right; refused where the validation pairs show fewer."),
    ),
    "most_logprob_drop": (
        _("Maximum log-prob drop"),
        _("In nats a token: how much less likely good answers of the validation tasks may become."),
    ),
    "most_length_drift": (
        _("Maximum length drift"),
        _("As a share: by how much the mean length of answers may change."),
    ),
    # when to train
    "timezone": (_("Time zone"), _("For example Europe/Berlin; hours, and events without a zone, are in it.")),
    "hours": (_("Hours"), _("Such as mon-fri 22:00-06:00, sat 00:00-24:00. Empty: always.")),
    "calendar": (_("Calendar"), _("An iCalendar text (.ics), recurring events too. Empty: none.")),
    "calendar_file": (_("Calendar from a file"), _("An .ics file takes the place of the text.")),
    "calendar_means": (_("An event of the calendar means"), _("The hours above hold too.")),
    "quiet_s": (
        _("Idle time before training"),
        _("A run starts after the project has called no model for this long. 0: at once."),
    ),
    "pauses_outside": (
        _("Pause when the hours end"),
        _("A run then resumes when they begin again. Off: a run that has started is finished."),
    ),
    "gpu_s_per_day": (_("Training time in 24 hours"), _("When it is used up, runs wait. Empty: no limit.")),
    "runs_per_day": (_("Runs in 24 hours"), _("After that, runs wait. Empty: no limit.")),
    "share": (
        _("Priority weight"),
        _("Against other projects that wait for a training machine: twice the weight gets twice the time."),
    ),
    "serves_until_rebuilt": (
        _("Serve until trained again"),
        _("An adapter with data of a person who was forgotten. Off: the version before it serves at once."),
    ),
    # conversations
    "learn": (
        _("Learn from conversations"),
        _("What people say next becomes feedback. Off: conversations are only kept."),
    ),
    "idle_s": (_("Session timeout"), _("A conversation ends after this long without a call.")),
    "judge": (_("Ask a model where rules cannot tell"), ""),
    "votes": (_("Votes"), _("How often the model is asked about one turn; an odd number.")),
    "fastest_s": (
        _("Shortest human reply time"),
        _("Replies that come sooner after an answer are treated as a program's and are no feedback; 0: none are."),
    ),
    "people": (_("Whose replies count"), _("In which conversations a person speaks who can judge an answer.")),
    "redaction": (_("Personal data and secrets"), _("In what is kept for training; conversations stay unchanged.")),
    "sampling": (
        _("Callers' temperature"),
        _("keep: as they ask, and learned from where it can be; enforce: 1 always; refuse: anything else is an error."),
    ),
    "names": (_("Names to mask"), _("Separated by commas.")),
    "keep_days": (
        _("Retention of unused conversations, in days"),
        _("Conversations that nothing was learned from are deleted after this. Empty: kept."),
    ),
    # who reviews what
    "who": (_("Reviewers"), ""),
    "rate": (
        _("Share of tasks sampled for review"),
        _("From 0 to 1; 0.1 is 10 %. Uncertain tasks are reviewed in addition."),
    ),
    "uncertain_spread": (
        _("Review when scorers differ by at least"),
        _("On the scale from 0 to 1. Empty: never for this reason."),
    ),
    "uncertain_margin": (
        _("Review when the score is this close to 0.5"),
        _("On the scale from 0 to 1. Empty: never for this reason."),
    ),
    "environments": (_("Environments"), _("None chosen: all of them. Else tasks of the others are not reviewed.")),
    "patience_s": (_("Review deadline"), _("How long a review stays open.")),
    "on_timeout": (_("If the deadline passes"), ""),
    "human_rate": (
        _("Share a person reviews as well"),
        _("Where both review: from 0 to 1. Uncertain tasks and a project's first always wait for a person."),
    ),
    "double_review_rate": (
        _("Share reviewed twice"),
        _("Blind second opinions, from 0 to 1: they measure agreement."),
    ),
    "gold_rate": (
        _("Share of control items (gold)"),
        _("Reviews whose right judgement is known, from 0 to 1; 0.05 is usual. They measure reviewers."),
    ),
    "undo_s": (
        _("Time to undo"),
        _("A judgement can be taken back for this long; only then it is learned from."),
    ),
    "blind": (
        _("Blind reviews"),
        _("People judge before they see who made an answer, its scores and what others said."),
    ),
    "ai_manager": (_("AI manager"), _("Who judges where an AI is asked.")),
    "model": (_("Model of the AI manager"), _("Empty: the installation's.")),
    "hint_model": (
        _("Model that writes hints"),
        _(
            "Turns what a reviewer writes into a hint: SERVER/MODEL of one of the project's model servers. Empty: the "
            "installation's; without one the reviewer's words are the hint."
        ),
    ),
    "only_probed_judges": (
        _("Only probed judges train"),
        _("What a model that judges says trains nothing before a probe found it above its bar."),
    ),
    # gate
    "margin": (
        _("Non-inferiority margin"),
        _("How much worse than the adapter in service a new one may be; 0.1 is 10 points."),
    ),
    "second_margin": (_("Margin of the step scores"), _("The same for the second metric, the scores of the steps.")),
    "confidence": (_("Confidence level"), _("Of the intervals: 0.9 is 90 %.")),
    "power": (_("Power"), _("Chance to detect the smallest difference that a verdict names.")),
    "anchor_margin": (
        _("Anchor margin"),
        _("A version that is significantly more than this below the anchor is rolled back; 0.02 is 2 points."),
    ),
    "confirm_size": (
        _("Confirmation tasks"),
        _("Freshly drawn where the panel shows that a version is better or worse than the anchor."),
    ),
    "anchor_patience": (
        _("Versions without proof"),
        _("After this many the answer to “proved better?” is: inconclusive."),
    ),
    "panel_size": (_("Held-out panel size"), _("Tasks an adapter is measured on at most; a clear case stops earlier.")),
    "panel_lifetime": (_("Panel lifetime, in versions"), _("After this many versions a new panel is drawn.")),
    "fresh_size": (
        _("Fresh held-out tasks"),
        _("Drawn for one adapter alone, at most: nothing can have been trained on them."),
    ),
    "sweep_size": (
        _("Tasks of the scale check"),
        _("Number of tasks an adapter is measured on when it is scaled down, those it failed first."),
    ),
    "blind_pairs": (
        _("Pairs of answers that people compare"),
        _("Of an adapter and what serves, at most, shown without names in the review queue. 0: a judge is asked."),
    ),
    "people_per_pair": (_("People per pair"), _("How many reviewers compare the same two answers.")),
    "skills_size": (
        _("Regression tasks"),
        _("Tasks that the base model did right, each asked several times, of the adapter in service too (G9)."),
    ),
    "skills_margin": (
        _("Regression margin"),
        _("As a share, against the base model or the adapter in service, whichever does worse (G9)."),
    ),
    "length_drift": (
        _("How much longer or shorter answers may get"),
        _("Than the base model's; 0.3 is 30 %. Allow more where checks ask for another length or an ending of yours."),
    ),
    "base_distance_nats": (
        _("How far answers may get from the base model's"),
        _("In nats a token: an ending of yours costs about 0.8, words in a heap about 1.8."),
    ),
    "capability_pairs": (
        _("Capability panel"),
        _("Pairs of sentences, one of them true, asked with some plain text of a pretrained model (G9). 0: not."),
    ),
    "text_margin_nats": (
        _("How much worse plain text may be known"),
        _("In nats a token, against the base model; 0.1 is 10 % of perplexity (G9)."),
    ),
    "reasoning_margin": (
        _("How much small reasoning may be lost"),
        _("As a share, against the base model (G9)."),
    ),
    "alignment_margin": (
        _("How much less honest it may be"),
        _("As a share of the scenarios, against what serves; asked where TENTALIS_ALIGNMENT_ENABLED is true."),
    ),
    "least_solved": (
        _("Minimum solved tasks for imitation"),
        _("Different tasks; with fewer a run is refused (G1)."),
    ),
    "most_loss_ratio": (_("Maximum validation loss"), _("As a multiple of the training loss (G4).")),
    "least_length_ratio": (_("Minimum answer length"), _("As a share of the length before training (G5).")),
    "most_grad_norm": (_("Gradient norm limit"), _("A larger one refuses the adapter (G7).")),
    "canary_percent": (
        _("Canary share, in per cent"),
        _("Share of the new tasks that a new adapter gets first, 0 to 50; 0: it gets all at once."),
    ),
    # recipe
    "algorithm": (
        _("Algorithm"),
        _("GRPO compares the attempts at a task. Save another one to see the fields that it uses."),
    ),
    "lora_rank": (_("LoRA rank"), _("Higher: more capacity, and more memory.")),
    "lora_alpha": (_("LoRA alpha"), _("The adapter's scale is alpha / rank.")),
    "target_modules": (_("Target modules"), _("Layers that get LoRA weights: names, separated by commas.")),
    "learning_rate": (
        _("Learning rate"),
        _("Of AdamW. 0.004 suits the built-in model; large ones want less, such as 0.00002."),
    ),
    "beta1": (_("AdamW beta 1"), ""),
    "beta2": (_("AdamW beta 2"), ""),
    "weight_decay": (_("Weight decay"), ""),
    "minibatches": (_("Minibatches"), _("Optimiser updates in one epoch; each sees a share of every group.")),
    "epochs": (_("Epochs"), _("Passes over a batch.")),
    "clip_low": (_("Clip low"), _("A token's probability ratio is clipped to 1 minus this at the lower end.")),
    "clip_high": (_("Clip high"), _("A token's probability ratio is clipped to 1 plus this at the upper end.")),
    "dual_clip": (_("Dual clip"), _("Cap on the loss of a token with a negative advantage. Empty: none.")),
    "singles": (
        _("Tasks attempted once"),
        _("Their rewards are compared with each other over the batch, or teach nothing."),
    ),
    "std_floor": (_("Std floor"), _("Added to the standard deviation that advantages are divided by.")),
    "kl_coef": (_("KL coefficient"), _("Weight of the KL penalty to the base model; 0: none is computed.")),
    "entropy_coef": (_("Entropy coefficient"), _("Weight of the entropy bonus, which keeps exploration; 0: none.")),
    "max_grad_norm": (_("Maximum gradient norm"), _("Larger gradients are scaled down to it.")),
    "w_rl": (_("Reward loss weight"), _("1, with a hint loss weight of 0: rewards only.")),
    "w_opd": (_("Hint loss weight"), _("Weight of on-policy distillation from hints; 0: hints teach nothing.")),
    "step_mix": (
        _("Step advantage share"),
        _("0: only the outcome's advantage counts; 1: only the steps'."),
    ),
    "opd_mode": (
        _("Hint distillation"),
        _("From a teacher that has read the hint, or the hint is only stored as text."),
    ),
    "opd_clip": (_("Hint advantage clip"), _("In nats. The teacher's gap per token is clipped to it.")),
    "opd_least_share": (
        _("Minimum hinted share"),
        _("A few hinted answers weigh together no more than if they were this share of a batch's tokens."),
    ),
    "teacher": (_("Teacher model"), _("`base`, `served:NAME` or a directory; with the same tokenizer.")),
    "max_staleness": (_("Maximum staleness"), _("In adapter versions. Older attempts are not learned from.")),
    "sft_temperature": (_("SFT temperature"), _("Lower: answers with the best rewards weigh more.")),
    "sft_weight_max": (_("SFT maximum weight"), _("Of one answer.")),
}

CHOICE_WORDS: dict[str, Words] = {
    "closed": _("No training then"),
    "open": _("Training only then"),
    "batch": _("Compared over the batch"),
    "mask": _("Masked; texts that contain some are not trained on"),
    "named": _("Those whose agent names the person"),
    "nobody": _("Nobody's: only explicit feedback counts"),
    "keep": _("As the caller asks"),
    "enforce": _("Always temperature 1"),
    "refuse": _("Other temperatures than 1 are refused"),
    "mask_loss_only": _("Masked in texts; answers that contain some are not learned from"),
    "none": _("Nobody"),
    "ai": _("An AI manager"),
    "human": _("A person"),
    "both": _("An AI manager and a person"),
    "learn_without": _("Learn from the scores alone"),
    "fail": _("Fail the task"),
    "": _("Default"),
    "rule-book": _("The desk's rule book"),
    "llm": _("A language model"),
    "rubric": _("The rubric, item by item; it can be trained on audits"),
    "verdict": _("The worker's own model, yes or no; it can be trained on audits"),
    "grpo": "GRPO",
    "dr_grpo": "Dr. GRPO",
    "dapo": "DAPO",
    "cispo": "CISPO",
    "gspo": _("GSPO: one ratio an answer"),
    "constant": _("Constant"),
    "linear": _("Linear, down to nothing"),
    "cosine": _("Cosine, down to nothing"),
    "reinforce_pp": "REINFORCE++",
    "dpo": _("DPO, from pairs"),
    "ipo": _("IPO, from pairs"),
    "kto": _("KTO, from judged answers"),
    "sft": _("SFT, from demonstrations"),
    "top_k": _("Top-K: on the likeliest tokens, under the best of several hints"),
    "reward_weighted_sft": _("Reward-weighted SFT"),
    "lightweight": _("Lightweight: kept as text, no distillation"),
    "logprobs": _("Log-probs: token by token, from a teacher that reads the hint"),
}
