"""Paths of the REST API. Paths end without a slash."""

from django.urls import include, path, re_path
from rest_framework.routers import SimpleRouter

from apps.api.views.accounts import InvitationViewSet, MemberViewSet, ProjectViewSet, TokenViewSet
from apps.api.views.benchmarks import BenchmarkViewSet, CatalogueView, DatasetViewSet
from apps.api.views.checks import CheckViewSet
from apps.api.views.conversations import ExchangeFeedbackView, ForgetView, SessionFeedbackView, TurnViewSet
from apps.api.views.courses import CourseViewSet
from apps.api.views.docs import DocsView, SchemaView, UnknownPathView
from apps.api.views.ensembles import EnsembleViewSet
from apps.api.views.evaluations import ComparedTogetherView, ComparisonView, EvaluationViewSet, ExperimentViewSet
from apps.api.views.feedback import FeedbackViewSet
from apps.api.views.gold import GoldViewSet
from apps.api.views.identity import ConfirmView, LoginView, LogoutView, WhoAmIView
from apps.api.views.judgement import ReviewViewSet
from apps.api.views.judges import JudgeProbeViewSet
from apps.api.views.knowledge import SkillViewSet
from apps.api.views.learning import AdapterViewSet, BatchViewSet, RolloutViewSet, RunViewSet
from apps.api.views.managers import ManagerRunViewSet
from apps.api.views.people import UserViewSet
from apps.api.views.prices import CostView, PriceViewSet
from apps.api.views.providers import ProviderGrantViewSet, ProviderViewSet
from apps.api.views.records import AuditViewSet, DeadLetterViewSet, GainView, LearningView, QueuesView
from apps.api.views.regradings import RegradingViewSet
from apps.api.views.rewards import RewardView
from apps.api.views.scorers import RewardModelViewSet
from apps.api.views.search import SearchView
from apps.api.views.sessions import ExchangeViewSet, SessionViewSet
from apps.api.views.supervision import ProposalViewSet
from apps.api.views.tasksets import TasksetViewSet
from apps.api.views.webhooks import DeliveryViewSet, WebhookViewSet
from apps.api.views.work import AttemptViewSet, EpisodeViewSet, TaskViewSet, WorkerViewSet
from apps.api.views.worlds import (
    RepoTaskAdmissionsView,
    RepoTaskAdmissionView,
    RepoTasksView,
    RepoTaskView,
    UploadView,
    WorldsView,
)

app_name = "api"

router = SimpleRouter(trailing_slash=False)
router.register("projects", ProjectViewSet)
router.register("users", UserViewSet)
router.register("members", MemberViewSet)
router.register("invitations", InvitationViewSet)
router.register("tokens", TokenViewSet, basename="token")
router.register("providers", ProviderViewSet)
router.register("provider-grants", ProviderGrantViewSet)
router.register("prices", PriceViewSet)
router.register("workers", WorkerViewSet)
router.register("ensembles", EnsembleViewSet)
router.register("tasks", TaskViewSet)
router.register("attempts", AttemptViewSet)
router.register("episodes", EpisodeViewSet, basename="episode")
router.register("reviews", ReviewViewSet)
router.register("feedback", FeedbackViewSet)
router.register("gold", GoldViewSet)
router.register("proposals", ProposalViewSet)
router.register("rollouts", RolloutViewSet)
router.register("batches", BatchViewSet)
router.register("runs", RunViewSet)
router.register("adapters", AdapterViewSet)
router.register("manager-runs", ManagerRunViewSet)
router.register("reward-models", RewardModelViewSet)
router.register("sessions", SessionViewSet)
router.register("exchanges", ExchangeViewSet)
router.register("turns", TurnViewSet)
router.register("skills", SkillViewSet)
router.register("checks", CheckViewSet)
router.register("tasksets", TasksetViewSet)
router.register("benchmarks", BenchmarkViewSet)
router.register("datasets", DatasetViewSet, basename="dataset")
router.register("courses", CourseViewSet)
router.register("evaluations", EvaluationViewSet)
router.register("experiments", ExperimentViewSet)
router.register("regradings", RegradingViewSet)
router.register("judge-probes", JudgeProbeViewSet)
router.register("webhooks", WebhookViewSet)
router.register("deliveries", DeliveryViewSet)
router.register("audit", AuditViewSet, basename="audit")
router.register("dead-letters", DeadLetterViewSet, basename="dead-letter")

conversation_paths = [
    re_path(r"^projects/(?P<slug>[-a-zA-Z0-9_]{1,64})/forget$", ForgetView.as_view(), name="project-forget"),
    re_path(r"^sessions/(?P<pk>.{1,400})/feedback$", SessionFeedbackView.as_view(), name="session-feedback"),
    re_path(
        r"^exchanges/(?P<pk>[0-9A-Za-z_-]{1,80})/feedback$", ExchangeFeedbackView.as_view(), name="exchange-feedback"
    ),
]

urlpatterns = [
    path("v1/", include(router.urls)),
    path("v1/", include(conversation_paths)),
    path("v1/login", LoginView.as_view(), name="login"),
    path("v1/logout", LogoutView.as_view(), name="logout"),
    path("v1/confirm", ConfirmView.as_view(), name="confirm"),
    path("v1/whoami", WhoAmIView.as_view(), name="whoami"),
    re_path(r"^v1/rewards/(?P<secret>[0-9a-f]{64})$", RewardView.as_view(), name="reward"),
    path("v1/comparisons", ComparisonView.as_view(), name="comparisons"),
    path("v1/comparisons/together", ComparedTogetherView.as_view(), name="comparisons-together"),
    path("v1/catalogue", CatalogueView.as_view(), name="catalogue"),
    path("v1/worlds", WorldsView.as_view(), name="worlds"),
    path("v1/repo-tasks", RepoTasksView.as_view(), name="repo-tasks"),
    path("v1/repo-task-admissions", RepoTaskAdmissionsView.as_view(), name="repo-task-admissions"),
    re_path(
        r"^v1/repo-task-admissions/(?P<pk>[0-9]{1,18})$", RepoTaskAdmissionView.as_view(), name="repo-task-admission"
    ),
    re_path(r"^v1/uploads/(?P<sha256>[0-9a-f]{64})$", UploadView.as_view(), name="upload"),
    re_path(r"^v1/repo-tasks/(?P<name>[A-Za-z0-9._@-]{1,140})$", RepoTaskView.as_view(), name="repo-task"),
    path("v1/search", SearchView.as_view(), name="search"),
    path("v1/metrics/learning", LearningView.as_view(), name="metrics-learning"),
    path("v1/metrics/gain", GainView.as_view(), name="metrics-gain"),
    path("v1/metrics/cost", CostView.as_view(), name="metrics-cost"),
    path("v1/metrics/queues", QueuesView.as_view(), name="metrics-queues"),
    path("schema/", SchemaView.as_view(), name="schema"),
    path("docs/", DocsView.as_view(), name="docs"),
    re_path(r"^[\s\S]*\Z", UnknownPathView.as_view(), name="unknown"),
]
