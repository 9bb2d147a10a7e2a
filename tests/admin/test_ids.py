"""Ids in a request that are none: a bad request, no error of the server."""

from __future__ import annotations

import pytest
from django.test import Client

NO_NUMBERS = ["x", "", "1.5", "\x00", str(2**63), "9" * 5000, "None"]


def post(client: Client, model: str, action: str, id: str, **data: str) -> int:
    answer = client.post(
        f"/admin/pgqueue/{model}/", {"action": action, "_selected_action": ["1", id], **data}
    )
    return answer.status_code


@pytest.mark.parametrize("id", NO_NUMBERS)
@pytest.mark.parametrize("action", ["run_now", "cancel", "release", "replay", "discard"])
def test_an_action_for_a_message_whose_id_is_no_number_is_refused(
    admin_client: Client, action: str, id: str
) -> None:
    assert post(admin_client, "message", action, id, index="0") == 400
    assert post(admin_client, "message", action, id, index="0", select_across="1") == 400
    assert post(admin_client, "message", action, "1", ids=f"1,{id}") == 400


@pytest.mark.parametrize("id", NO_NUMBERS)
def test_deleting_a_policy_whose_id_is_no_number_is_refused(admin_client: Client, id: str) -> None:
    assert post(admin_client, "policy", "delete_selected", id, index="0") == 400
    assert post(admin_client, "policy", "delete_selected", id, post="yes") == 400


@pytest.mark.parametrize("model", ["channel", "schedule", "subscription"])
@pytest.mark.parametrize("action", ["pause", "resume", "delete_selected"])
def test_an_action_for_a_name_that_holds_a_nul_is_refused(
    admin_client: Client, model: str, action: str
) -> None:
    assert post(admin_client, model, action, "a\x00b", index="0") == 400
    assert post(admin_client, model, action, "no such", index="0") in (200, 302)


@pytest.mark.parametrize("action", ["resume", "rebuild", "delete_selected"])
def test_an_action_for_a_group_whose_name_holds_a_nul_is_refused(
    admin_client: Client, action: str
) -> None:
    assert post(admin_client, "group", action, "a\x00b", index="0") == 400
    assert post(admin_client, "group", action, "no such", index="0") in (200, 302)


@pytest.mark.parametrize("id", NO_NUMBERS)
def test_enqueuing_a_message_once_more_whose_id_is_no_number_is_refused(
    admin_client: Client, id: str
) -> None:
    assert post(admin_client, "history", "rerun", id, index="0") == 400
    assert post(admin_client, "history", "rerun", "1", ids=f"1,{id}") == 400


@pytest.mark.parametrize("model", ["worker", "duty", "event"])
def test_a_model_without_actions_ignores_ids(admin_client: Client, model: str) -> None:
    assert post(admin_client, model, "delete_selected", "x", index="0") in (200, 302, 403)
