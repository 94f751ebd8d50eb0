"""How well raters judge."""

from django.urls import path

from apps.console.views import quality

urlpatterns = [
    path("quality/", quality.show_quality, name="quality"),
    path("quality/<int:rater_id>/", quality.show_rater, name="rater"),
    path("quality/<int:rater_id>/reinstate/", quality.reinstate_rater, name="rater-reinstate"),
]
