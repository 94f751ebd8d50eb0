"""What scorers said."""

from apps.base.admin import show
from apps.scoring.models import RewardModel, StepLabel, StepScore

show(StepScore, "id attempt step scorer score spread reason", search="=attempt__id =scorer")
show(RewardModel, "name project worker version state created_at", filters="state project", search="name =sha256")
show(StepLabel, "id attempt step source value created_at", filters="source", search="=attempt__id")
