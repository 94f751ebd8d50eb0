"""How well raters judge."""

from django.urls import path

from apps.console.views import managers, quality

urlpatterns = [
    path("quality/", quality.show_quality, name="quality"),
    path("quality/quarantine/", quality.quarantine_rater, name="rater-quarantine"),
    path("quality/favours/look/", quality.look_for_favours, name="favours-look"),
    path("quality/favours/<str:key>/dismiss/", quality.dismiss_group, name="favour-dismiss"),
    path("quality/judges/probe/", quality.probe_judge, name="judge-probe"),
    path("quality/<int:rater_id>/", quality.show_rater, name="rater"),
    path("quality/managers/<int:fit_id>/", managers.show_manager_run, name="manager-run"),
    path("quality/managers/<int:fit_id>/roll-back/", managers.roll_back_manager, name="manager-roll-back"),
    path("quality/gold/add/<int:feedback_id>/", quality.add_gold, name="gold-add"),
    path("quality/gold/<int:gold_id>/remove/", quality.remove_gold, name="gold-remove"),
    path("quality/<int:rater_id>/reinstate/", quality.reinstate_rater, name="rater-reinstate"),
]
