"""Who calls, tokens, projects and their members."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from tentalis.client.endpoints.calls import Answer, Sender


class Accounts(Sender[Answer]):
    """Who calls, tokens, projects and their members."""

    def login(self, *, username: str, password: str, name: str, code: str | None = None) -> Answer:
        """A token for a name and password; the answer's `token` is shown this once.

        Args:
            code: of the authenticator app, or a recovery code, where there is a second factor.
        """
        return self._post("login", username=username, password=password, name=name, code=code)

    def confirm(self, *, password: str | None = None, code: str | None = None) -> Answer:
        """Prove who you are, for what answers `confirmation_required`."""
        return self._post("confirm", password=password, code=code)

    def logout(self) -> Answer:
        """Revoke the token this client uses."""
        return self._post("logout")

    def whoami(self) -> Answer:
        return self._get("whoami")

    def get_judges(self, slug: str) -> Answer:
        """Who judges in a project, and how much of the work."""
        return self._get(f"projects/{slug}/judges")

    def choose_judges(self, slug: str, **changes: Any) -> Answer:
        """Say who judges from now on; `changes` of who (human, ai, both, none), rate, human_rate, model."""
        return self._patch(f"projects/{slug}/judges", **changes)

    def list_users(self, **params: Any) -> Answer:
        """People of the installation; takes an admin."""
        return self._get("users", **params)

    def create_user(self, *, username: str, email: str | None = None, password: str | None = None) -> Answer:
        """An account; its `password` is in this answer and nowhere else."""
        return self._post("users", username=username, email=email, password=password)

    def change_user(self, user_id: int, **changes: Any) -> Answer:
        return self._patch(f"users/{user_id}", **changes)

    def reset_password(self, user_id: int, *, password: str | None = None) -> Answer:
        """Another password, drawn where none is given; it is in this answer and nowhere else."""
        return self._post(f"users/{user_id}/reset-password", password=password, draw=None if password else True)

    def list_tokens(self, **params: Any) -> Answer:
        return self._get("tokens", **params)

    def create_token(
        self,
        *,
        name: str,
        scopes: Sequence[str] | None = None,
        project: str | None = None,
        username: str | None = None,
        expires_in_days: int | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> Answer:
        """A token for a program; its text is in this answer and nowhere else.

        Args:
            limits: requests_per_minute, tokens_per_minute, tokens_per_day, usd_per_day, usd_per_month.
        """
        return self._post(
            "tokens",
            name=name,
            scopes=list(scopes) if scopes is not None else None,
            project=project,
            username=username,
            expires_in_days=expires_in_days,
            limits=dict(limits) if limits is not None else None,
        )

    def change_token(self, token_id: int, *, limits: Mapping[str, Any]) -> Answer:
        return self._patch(f"tokens/{token_id}", limits=dict(limits))

    def revoke_token(self, token_id: int) -> Answer:
        return self._delete(f"tokens/{token_id}")

    def list_projects(self, **params: Any) -> Answer:
        return self._get("projects", **params)

    def get_project(self, slug: str) -> Answer:
        return self._get(f"projects/{quote(slug, safe='')}")

    def create_project(self, *, slug: str, name: str, **settings: Any) -> Answer:
        return self._post("projects", slug=slug, name=name, **settings)

    def change_project(self, slug: str, **changes: Any) -> Answer:
        return self._patch(f"projects/{quote(slug, safe='')}", **changes)

    def archive_project(self, slug: str) -> Answer:
        """Take no new task and no gateway call; all the project holds stays."""
        return self._post(f"projects/{quote(slug, safe='')}/archive")

    def unarchive_project(self, slug: str) -> Answer:
        return self._post(f"projects/{quote(slug, safe='')}/unarchive")

    def delete_project(self, slug: str) -> Answer:
        """Delete a project that holds no work."""
        return self._delete(f"projects/{quote(slug, safe='')}")

    def why(self, slug: str) -> Answer:
        """Why nothing trains in a project."""
        return self._get(f"projects/{quote(slug, safe='')}/why")

    def list_members(self, **params: Any) -> Answer:
        return self._get("members", **params)

    def add_member(self, *, project: str, username: str, role: str) -> Answer:
        return self._post("members", project=project, username=username, role=role)

    def list_invitations(self, **params: Any) -> Answer:
        """Yours, and those of projects whose members you name."""
        return self._get("invitations", **params)

    def invite(self, *, project: str, username: str, role: str) -> Answer:
        """Offer a person a role; the answer's `link` is shown this once."""
        return self._post("invitations", project=project, username=username, role=role)

    def accept_invitation(self, invitation_id: int) -> Answer:
        return self._post(f"invitations/{invitation_id}/accept")

    def decline_invitation(self, invitation_id: int) -> Answer:
        return self._post(f"invitations/{invitation_id}/decline")

    def withdraw_invitation(self, invitation_id: int) -> Answer:
        return self._delete(f"invitations/{invitation_id}")

    def leave_project(self, slug: str) -> Answer:
        return self._post(f"projects/{quote(slug, safe='')}/leave")

    def change_member(self, member_id: int, *, role: str) -> Answer:
        return self._patch(f"members/{member_id}", role=role)

    def remove_member(self, member_id: int) -> Answer:
        return self._delete(f"members/{member_id}")
