"""How far each rater is trusted, and what that rests on."""

from apps.base.admin import show
from apps.calibration.models import Comparison, FavourScreen, Rater

show(
    Rater,
    "handle project kind weight bad false_approvals good false_rejections drifted_at quarantined_at",
    filters="kind project",
    search="handle",
)
show(Comparison, "id rater attempt step said truth source against counts at", search="=attempt__id =rater__handle")
show(FavourScreen, "project screened_at raters lines reason")
