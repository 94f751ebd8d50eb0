"""What agents ask before they act."""

from django.urls import path

from apps.console.views import proposals

urlpatterns = [
    path("proposals/", proposals.list_proposals, name="proposal-list"),
    path("proposals/decided/", proposals.list_decided, name="proposal-decided"),
    path("proposals/count/", proposals.count_proposals, name="proposal-count"),
    path("proposals/rules/", proposals.list_rules, name="proposal-rules"),
    path("proposals/rules/<int:worker_id>/", proposals.change_rules, name="proposal-rules-change"),
    path("proposals/<int:proposal_id>/", proposals.show_proposal, name="proposal"),
    path("proposals/<int:proposal_id>/decide/", proposals.decide_proposal, name="proposal-decide"),
]
