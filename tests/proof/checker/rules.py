"""All rules, each with the promise that the report names."""

from __future__ import annotations

from collections.abc import Mapping

from tests.proof.checker import events, limits, messages, order, others
from tests.proof.checker.account import Account
from tests.proof.checker.anomaly import Anomaly, Rule

RULES: Mapping[str, Rule] = {
    "Nothing committed is lost": messages.nothing_committed_is_lost,
    "Nothing rolled back exists": messages.nothing_rolled_back_exists,
    "A transaction is there as a whole, or not at all": messages.transactions_are_whole,
    "Effects: exactly once for atomic tasks, at least once for others": (
        messages.effects_happen_as_promised
    ),
    "An attempt runs once": messages.each_attempt_runs_once,
    "A success is stored soon": messages.a_success_is_stored_soon,
    "Counters are the faults that messages met": messages.counters_are_the_faults_met,
    "No lease lives for ever": messages.no_lease_lives_for_ever,
    "Limits hold at every moment": limits.limits_hold_at_every_moment,
    "Rates hold in every window": limits.rates_hold_in_every_window,
    "Lanes follow the order of commits": order.lanes_follow_commits,
    "No run of a lane overtakes": order.no_run_overtakes_in_a_lane,
    "Positions have no gaps, and follow the order of commits": order.positions_follow_commits,
    "The log has each committed event once": events.the_log_has_what_was_committed,
    "Every reader reads the same log": events.every_reader_reads_the_same,
    "Every reader sees the end of the log": events.every_reader_sees_the_log,
    "Groups handle each event, atomic groups once": events.groups_handle_each_event,
    "Conditions of appends hold": events.conditions_hold,
    "Durable steps happen once": others.durable_steps_happen_once,
    "Flows go as their graphs say": others.flows_go_as_their_graphs_say,
    "Each tick has one message": others.each_tick_happens_once,
}


def check(account: Account) -> dict[str, list[Anomaly]]:
    """Return the anomalies that each rule finds, by the promise."""
    return {promise: list(rule(account)) for promise, rule in RULES.items()}
