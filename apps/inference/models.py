"""Model endpoints, and the calls made to them with their exact tokens."""

import uuid

from django.contrib.postgres.functions import RandomUUID
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from apps.accounts.models import Project
from apps.base.models import Timestamped
from apps.base.word_index import MessageContents, Words
from apps.inference.provider_kinds import CHOICES, find_kind
from tentalis.core.packing import unpack_bools, unpack_float32, unpack_int32, unpack_top
from tentalis.outbound.addresses import check_url

TOLD_BY_A_SPAN = "otlp"
MEASURED_TURN = "eval"
"""Of calls of an evaluation's tries: nothing is learnt from them."""
"""`Exchange.api` of a call that a program told of by OpenTelemetry: it was asked elsewhere."""
FELL_BACK = "a fallback answered, and its tokens are another model's"

EXCHANGE_WORDS = ("text", MessageContents("messages"))
"""What of a call in a session can be searched: what was newly said, and the answer."""


class Provider(Timestamped):
    """A model server. `project` None: shared, for the projects that it is granted to.

    Attributes:
        granted_to: of a shared one, whether every project may ask it or those that have a grant.
        kind: which row of the registry says how it is spoken to.
        more_urls: further addresses that serve the same models; sessions are spread over all of them.
        api_key_sealed: encrypted, and bound to this row, its project and the origins it may be sent to.
        allow_private: loopback and private addresses are allowed; only an installation's admin may say so.
        requests_per_minute, tokens_per_minute: what all callers together may ask of it; None: no limit of ours.
        tells_processed: its log-probs are those of the distribution it sampled from (vLLM with
            --logprobs-mode processed_logprobs), and not those at temperature 1.
        probe, probed_at: what the last test found (`probes.Probe` as JSON); {} and None before the first.
    """

    class GrantedTo(models.TextChoices):
        LISTED = "listed", "Projects with a grant"
        EVERYONE = "everyone", "Every project"

    project = models.ForeignKey(Project, models.CASCADE, null=True, blank=True, related_name="providers")
    name = models.SlugField(max_length=64)
    granted_to = models.CharField(
        max_length=8, choices=GrantedTo.choices, default=GrantedTo.LISTED, db_default=GrantedTo.LISTED
    )
    kind = models.CharField(max_length=16, choices=CHOICES, default="custom")
    base_url = models.URLField(max_length=500)
    api_key_sealed = models.BinaryField(
        default=b"", editable=False, help_text="Encrypted; empty when the server wants none."
    )
    more_urls = models.JSONField(default=list, blank=True)
    default_model = models.CharField(max_length=200, blank=True)
    allow_private = models.BooleanField(default=False)
    timeout_s = models.FloatField(null=True, blank=True, help_text="Longest silence; empty: the installation's.")
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    tokens_per_minute = models.PositiveIntegerField(null=True, blank=True)
    tells_processed = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Its log-probs are at the temperature it samples at: vLLM's --logprobs-mode processed_logprobs.",
    )
    is_active = models.BooleanField(default=True)
    probe = models.JSONField(default=dict, blank=True, editable=False)
    probed_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="provider_name_is_unique", nulls_distinct=False),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def teaches(self) -> str:
        """Which of its answers can train weights, in words, where not all do."""
        return find_kind(self.kind).say_what_teaches(is_declared=self.tells_processed)

    def sealed_for(self, field: str) -> str:
        """What the API key is bound to: this row, its project, and everywhere it may be sent."""
        urls = [url for url in (self.base_url, *self.more_urls) if url]
        origins = " ".join(sorted({str(check_url(url)) for url in urls}))
        return f"{field} of provider {self.pk} of project {self.project_id or '(all)'} at {origins}"


class ProviderGrant(Timestamped):
    """A project may ask a shared model server.

    Attributes:
        tokens_per_day: prompts and answers of its calls together, a day in UTC; None: no limit.
        usd_per_month: by the prices known, a month in UTC; None: no limit.
        granted_by: handle of the admin.
    """

    provider = models.ForeignKey(Provider, models.CASCADE, related_name="grants")
    project = models.ForeignKey(Project, models.CASCADE, related_name="provider_grants")
    tokens_per_day = models.PositiveBigIntegerField(null=True, blank=True)
    usd_per_month = models.FloatField(null=True, blank=True)
    granted_by = models.CharField(max_length=160)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "project"], name="provider_is_granted_once"),
            models.CheckConstraint(
                condition=(Q(tokens_per_day__isnull=True) | Q(tokens_per_day__gte=1))
                & (Q(usd_per_month__isnull=True) | Q(usd_per_month__gt=0)),
                name="grant_allows_something",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider} for {self.project}"


class Price(Timestamped):
    """What a model costs, in US dollars a million tokens, from a moment on; the latest that began counts.

    Attributes:
        provider: None: of every provider of this kind.
        model: name, or a prefix of names that ends with *.
        cached_input: of prompt tokens the server had in its cache; None: as input.
        source: the page it was read from, or who gave it.
    """

    provider = models.ForeignKey(Provider, models.CASCADE, null=True, blank=True, related_name="prices")
    kind = models.CharField(max_length=16, blank=True)
    model = models.CharField(max_length=200)
    input = models.DecimalField(max_digits=12, decimal_places=6)
    output = models.DecimalField(max_digits=12, decimal_places=6)
    cached_input = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    valid_from = models.DateTimeField()
    source = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["-valid_from", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "kind", "model", "valid_from"], name="price_is_unique", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=Q(provider__isnull=False) ^ ~Q(kind=""), name="price_is_of_a_provider_or_a_kind"
            ),
            models.CheckConstraint(
                condition=Q(input__gte=0) & Q(output__gte=0) & (Q(cached_input__isnull=True) | Q(cached_input__gte=0)),
                name="price_is_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model}: {self.input} in, {self.output} out"


class Session(Timestamped):
    """A conversation seen by the gateway.

    Attributes:
        key: as its agent names it; unique among the project's sessions of that agent.
        agent: handle of the user whose tokens speak in it; nobody else's do.
        end_user: who talks to the agent, as the agent names them; "" where it does not say.
        closed_at: it was said to be done, or was idle for the project's time.
        is_named: its caller named the conversation; False where only its user was named, or nothing was.
        thread: of one that nobody named: what its next request repeats, by which that finds it; "".
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="sessions")
    key = models.CharField(max_length=200)
    worker_name = models.CharField(max_length=64, blank=True)
    agent = models.CharField(max_length=160, blank=True)
    end_user = models.CharField(max_length=200, blank=True)
    last_seen_at = models.DateTimeField(auto_now=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    is_named = models.BooleanField(default=True, db_default=True)
    thread = models.CharField(max_length=32, blank=True, default="", db_default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "key", "agent"], name="session_key_is_the_agents")]
        indexes = [
            models.Index(fields=["project", "-last_seen_at"], name="session_by_project"),
            models.Index(fields=["last_seen_at"], condition=Q(closed_at__isnull=True), name="session_open"),
            models.Index(fields=["project", "end_user"], condition=~Q(end_user=""), name="session_by_end_user"),
            models.Index(fields=["thread"], condition=~Q(thread=""), name="session_by_thread"),
        ]

    def __str__(self) -> str:
        return self.key


class Exchange(Timestamped):
    """One request and one of its answers, token for token.

    A conversation's turn k is stored as what is new since turn k-1: `messages` and `prompt_token_ids` begin where the
    parent's conversation (its prompt and its answer) ends; `apps.inference.selectors` puts them together again.

    Attributes:
        public_id: what callers know it by; the choices of one request share it.
        choice: which of the request's answers this is.
        parent: the exchange whose conversation this one goes on; None: everything is here.
        shared_messages, shared_tokens: how many of the conversation's messages, and of the prompt's tokens, are the
            parent's.
        token: key id of the token that asked; "" for calls of ours, and for those of before it was kept.
        api: chat, completions, responses or messages: the dialect the caller spoke; otlp: a span told of the call.
        turn: main (the agent answers its user) or side (it talks to itself: summaries, memory, heartbeats); judge,
            manager or hint: a call of ours beside the agent's work, of which the figures alone are kept; shadow: an
            answer that is compared with what serves and shown to nobody; eval: of a try of an evaluation.
        task_id, attempt_index, step_index: of the task, its attempt and step that it was made for, as the caller said
            (the rows live on a higher floor).
        request: what else was asked: sampling, tools, response format.
        sampling: what of it, as it was sent, decides how the answer was sampled (`tentalis.core.sampling`); {}: nobody
            kept it.
        reasoning: what the model thought aloud before its answer, where the server tells.
        thinking_blocks: the same as its server signed it, to be sent back as it is; None where it signed nothing.
        retry: how often the caller's library had sent the request before, as it says itself.
        status: HTTP status the caller got.
        is_truncated: the answer broke off: the server or the caller went away.
        is_mixed: another adapter served at its end than at its start; nothing is trained on it.
        fallback_reason: why one of its worker's fallbacks answered, each that was passed over by name; "" where the
            model that was asked for did. Another model's tokens are never trained as the worker's.
        deleted_at: its agent deleted the answer: that is given out no more and trains nobody; the record stays.
        cost_usd: by the price known then; None: no price was known.
        upstream: address that served it.
        adapter_name: what really served it; "" for the base model.
        policy_version: version number of that adapter; 0 for the base model.
        prompt_token_ids, token_ids: packed little-endian int32; empty where the server gave none.
        logprobs: packed float32, natural log; same length as token_ids, 0 where not sampled.
        sampled: packed bits, 1 where the policy chose the token (tool results are 0).
        top_token_ids, top_logprobs: packed int32 and float32, the same number K of each for every token: the likeliest
            tokens there, most likely first, id -1 where there is none; empty where the recipe did not ask for them.
    """

    public_id = models.UUIDField(default=uuid.uuid4, db_default=RandomUUID(), editable=False)
    choice = models.PositiveSmallIntegerField(default=0)
    parent = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="+")
    shared_messages = models.PositiveIntegerField(default=0)
    shared_tokens = models.PositiveIntegerField(default=0)
    project = models.ForeignKey(Project, models.CASCADE, related_name="exchanges")
    session = models.ForeignKey(Session, models.CASCADE, null=True, blank=True, related_name="exchanges")
    provider = models.ForeignKey(Provider, models.SET_NULL, null=True, blank=True, related_name="+")
    worker_name = models.CharField(max_length=64, blank=True)
    agent = models.CharField(max_length=160, blank=True)
    token = models.CharField(max_length=32, blank=True, default="", db_default="")
    api = models.CharField(max_length=16, blank=True)
    turn = models.CharField(max_length=8, default="main")
    task_id = models.BigIntegerField(null=True, blank=True)
    attempt_index = models.PositiveSmallIntegerField(null=True, blank=True)
    step_index = models.PositiveIntegerField(null=True, blank=True)
    model = models.CharField(max_length=200)
    request = models.JSONField(default=dict)
    sampling = models.JSONField(default=dict, db_default={})
    adapter_name = models.CharField(max_length=200, blank=True)
    policy_version = models.PositiveIntegerField(default=0)
    messages = models.JSONField(default=list)
    text = models.TextField(blank=True)
    reasoning = models.TextField(blank=True)
    thinking_blocks = models.JSONField(null=True, blank=True)
    tool_calls = models.JSONField(default=list)
    finish_reason = models.CharField(max_length=32, blank=True)
    prompt_token_ids = models.BinaryField(default=b"")
    token_ids = models.BinaryField(default=b"")
    logprobs = models.BinaryField(default=b"")
    sampled = models.BinaryField(default=b"")
    top_token_ids = models.BinaryField(default=b"", db_default=b"")
    top_logprobs = models.BinaryField(default=b"", db_default=b"")
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    cached_tokens = models.PositiveIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=8, null=True, blank=True)
    latency_ms = models.FloatField(null=True)
    first_token_ms = models.FloatField(null=True)
    upstream = models.CharField(max_length=500, blank=True)
    retry = models.PositiveSmallIntegerField(default=0, db_default=0)
    status = models.PositiveSmallIntegerField(default=200)
    is_streamed = models.BooleanField(default=False)
    is_truncated = models.BooleanField(default=False)
    is_mixed = models.BooleanField(default=False)
    error = models.TextField(blank=True)
    fallback_reason = models.TextField(blank=True, default="", db_default="")
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["public_id", "choice"], name="exchange_choice_is_unique"),
        ]
        indexes = [
            models.Index(fields=["project", "-id"], name="exchange_by_project"),
            models.Index(fields=["session", "id"], condition=Q(session__isnull=False), name="exchange_by_session"),
            models.Index(fields=["task_id"], condition=Q(task_id__isnull=False), name="exchange_by_task"),
            models.Index(fields=["parent"], condition=Q(parent__isnull=False), name="exchange_by_parent"),
            GinIndex(Words(*EXCHANGE_WORDS), condition=Q(session__isnull=False), name="exchange_words"),
            models.Index(
                fields=["project", "created_at"],
                include=["cost_usd", "prompt_tokens", "completion_tokens", "turn", "provider", "model"],
                name="exchange_cost_by_day",
            ),
        ]

    def __str__(self) -> str:
        return f"exchange {self.pk} with {self.adapter_name or self.model}"

    EXACT_BY = (
        "prompt_token_ids",
        "shared_tokens",
        "token_ids",
        "logprobs",
        "is_truncated",
        "is_mixed",
        "fallback_reason",
        "deleted_at",
    )
    """What `has_exact_tokens` looks at."""

    @property
    def has_exact_tokens(self) -> bool:
        """Whether its worker's model told the answer's token ids and log-probs: nothing else can be trained on."""
        has_prompt = bool(self.prompt_token_ids) or self.shared_tokens > 0
        is_whole = not (self.is_truncated or self.is_mixed or self.ban)
        return is_whole and has_prompt and bool(self.token_ids) and len(self.logprobs) == len(self.token_ids)

    FAILED_BY = ("status", "error", "is_truncated", "text", "tool_calls")
    FAILED = Q(status__gte=400) | (~Q(error="") & (Q(is_truncated=True) | Q(text="", tool_calls=[])))
    """What `has_failed` looks at, and the same asked of rows."""

    @property
    def has_failed(self) -> bool:
        """Whether it gave no answer, or one that broke off with an error; what `error` says else is of its tokens."""
        has_answer = bool(self.text or self.tool_calls) and not self.is_truncated
        return self.status >= 400 or (bool(self.error) and not has_answer)

    @property
    def ban(self) -> str:
        """Why neither it nor a turn it stands in may be trained on; "" where that says nothing against it."""
        if self.fallback_reason:
            return FELL_BACK
        return "its agent deleted the answer" if self.deleted_at else ""

    @property
    def token_fault(self) -> str:
        """Why its tokens are not exact, in words; "" where they are."""
        if self.has_exact_tokens:
            return ""
        if self.api == TOLD_BY_A_SPAN:
            return "a span told it, without token ids: it can be reviewed, not trained on"
        if self.ban:
            return self.ban
        if self.is_truncated:
            return "the answer broke off before it was whole"
        if self.is_mixed:
            return "another adapter served at the answer's end than at its start"
        if self.token_ids and self.error:
            return self.error[:300]
        return "the model server told no token ids or log-probs"

    def unpack_prompt_token_ids(self) -> list[int]:
        return unpack_int32(self.prompt_token_ids)

    def unpack_token_ids(self) -> list[int]:
        return unpack_int32(self.token_ids)

    def unpack_logprobs(self) -> list[float]:
        return unpack_float32(self.logprobs)

    def unpack_sampled(self) -> list[bool]:
        return unpack_bools(self.sampled, len(self.token_ids) // 4)

    def unpack_top(self) -> list[list[tuple[int, float]]]:
        """(T,) the likeliest tokens at each place with their log-probs; [] where they were not asked for."""
        return unpack_top(self.top_token_ids, self.top_logprobs, size=len(self.token_ids) // 4)


class SpoolPosition(models.Model):
    """How far a gateway's spool is in the database: moved in the transaction that writes the rows, so each comes once.

    Attributes:
        name: of the spool's directory.
        segment, offset: file number, and the byte behind the last record that is stored.
    """

    name = models.CharField(max_length=200, unique=True)
    segment = models.PositiveBigIntegerField(default=0)
    offset = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name}: {self.segment}+{self.offset}"
