"""One's own console, and how a project is set up."""

from django.urls import path

from apps.console.views import (
    account,
    exports,
    forget,
    house,
    invited,
    people,
    projects,
    second_factor,
    signing_in,
    tokens,
)

account_urlpatterns = [
    path("preferences/", account.show_preferences, name="preferences"),
    path("preferences/keys/", account.show_keys, name="keys"),
    path("preferences/theme/", account.choose_theme, name="theme"),
    path("people/", people.show_people, name="people"),
    path("people/<int:user_id>/password/", people.reset_password, name="person-reset"),
    path("people/<int:user_id>/switch/", people.switch_person, name="person-switch"),
    path("projects/", projects.list_projects, name="projects"),
    path("new-project/", projects.make_project, name="project-new"),
    path("invitations/", invited.show_invitations, name="invitations"),
    path("invitations/<int:invitation_id>/answer/", invited.answer, name="invitation-answer"),
    path("invitations/<str:code>/", invited.show_invitation, name="invitation"),
    path("invitations/<str:code>/account/", invited.join, name="join"),
    path("preferences/sign-in/", signing_in.show_signing_in, name="signing-in"),
    path("preferences/sign-in/password/", signing_in.change_password, name="password"),
    path("preferences/sign-in/sessions/", signing_in.end_sessions, name="sessions-end"),
    path("preferences/sign-in/app/", second_factor.set_up_app, name="app-set-up"),
    path("preferences/sign-in/app/begin/", second_factor.begin_app, name="app-begin"),
    path("preferences/sign-in/app/remove/", second_factor.remove_app, name="app-remove"),
    path("preferences/sign-in/passkeys/", second_factor.add_passkey, name="passkey-add"),
    path("preferences/sign-in/passkeys/options/", second_factor.offer_passkey, name="passkey-offer"),
    path("preferences/sign-in/passkeys/<int:passkey_id>/remove/", second_factor.remove_passkey, name="passkey-remove"),
    path("preferences/sign-in/recovery-codes/", second_factor.make_recovery_codes, name="recovery-codes"),
]

urlpatterns = [
    path("settings/", house.show_settings, name="settings"),
    path("glossary/", account.show_glossary, name="glossary"),
    path("archive/", projects.archive, name="project-archive"),
    path("unarchive/", projects.unarchive, name="project-unarchive"),
    path("members/", house.show_members, name="members"),
    path("members/leave/", house.leave_project, name="member-leave"),
    path("members/invitations/<int:invitation_id>/withdraw/", house.withdraw_invitation, name="invitation-withdraw"),
    path("members/<int:member_id>/role/", house.change_member, name="member-role"),
    path("members/<int:member_id>/remove/", house.remove_member, name="member-remove"),
    path("forget/", forget.show_forget, name="forget"),
    path("tokens/", tokens.show_tokens, name="tokens"),
    path("tokens/<int:token_id>/revoke/", tokens.revoke, name="token-revoke"),
    path("tokens/<int:token_id>/limits/", tokens.limit_token, name="token-limits"),
    path("limits/", tokens.limit_project, name="project-limits"),
    path("exports/", exports.show_exports, name="exports"),
    path("exports/<slug:name>/", exports.export, name="export"),
    path("tour/dismiss/", account.dismiss_tour, name="tour-dismiss"),
    path("views/", account.keep_view, name="view-keep"),
    path("views/<int:view_id>/delete/", account.drop_view, name="view-drop"),
]
