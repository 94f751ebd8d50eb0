"""How well raters judge."""

from django.urls import path

from apps.console.views import managers, quality

urlpatterns = [
    path("quality/", quality.show_quality, name="quality"),
    path("quality/<int:rater_id>/", quality.show_rater, name="rater"),
    path("quality/managers/<int:fit_id>/", managers.show_manager_run, name="manager-run"),
    path("quality/managers/<int:fit_id>/roll-back/", managers.roll_back_manager, name="manager-roll-back"),
    path("quality/<int:rater_id>/reinstate/", quality.reinstate_rater, name="rater-reinstate"),
]
