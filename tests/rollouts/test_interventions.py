"""Arms: which strategy and which skills each intervention puts into the talent context; and seeds."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollout_samples import BANK, TASK, FixedRetriever

from talentrl.policy.prompts import routing_turn, system_prompt, talent_context
from talentrl.rollouts.interventions import Arm, derive_seed


@pytest.mark.parametrize(
    ("intervention", "talent", "context", "asked"),
    [
        ("routed", "b", "Strategy: Be quick.\nread: Do it.", "b"),
        ("forced", "b", "Strategy: Be quick.\nread: Do it.", "b"),
        ("strategy_only", "b", "Strategy: Be quick.\nfind: Do it.", None),
        ("skills_only", "b", "read: Do it.", "b"),
        ("null", None, "find: Do it.", None),
        ("routed", None, "find: Do it.", None),  # a malformed routing turn
    ],
)
def test_what_an_intervention_puts_into_the_context(intervention, talent, context, asked):
    retriever = FixedRetriever()
    text, hits = Arm(TASK, intervention, talent).context(BANK, retriever, 1)
    assert text == context
    assert retriever.requests == [asked]
    assert [hit.id for hit in hits] == [context.splitlines()[-1].split(":")[0]]


def test_arm_ids_are_distinct_and_independent_of_the_prompt():
    arms = [Arm(TASK, i, t) for i in ("routed", "forced", "strategy_only", "skills_only") for t in ("a", "b")]
    arms += [Arm(TASK, "null", None), Arm(TASK, "routed", None)]
    assert len({arm.arm_id for arm in arms}) == len(arms)
    assert Arm(TASK, "forced", "a").arm_id == "forced:a"


def test_an_empty_context_says_so():
    assert talent_context(None, []) == "No strategy."
    assert talent_context("", []) == "No strategy."


def test_prompts_hold_the_menu_in_the_order_given():
    talents = list(BANK.talents.values())
    assert system_prompt(talents).endswith("Talents:\na: first\nb: second")
    assert system_prompt(talents[::-1]).endswith("Talents:\nb: second\na: first")
    assert (routing_turn("a"), routing_turn(None)) == ("<talent>a</talent>", "<talent>none</talent>")


@given(st.lists(st.one_of(st.integers(), st.text()), min_size=1, max_size=4))
def test_seeds_have_31_bits_and_repeat(parts):
    assert 0 <= derive_seed(*parts) < 2**31
    assert derive_seed(*parts) == derive_seed(*parts)


def test_seeds_are_the_same_in_another_process():
    code = "from talentrl.rollouts.interventions import derive_seed; print(derive_seed(7, 'rollout', 't1', 0))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(found) == derive_seed(7, "rollout", "t1", 0) == 2125500391


def test_seeds_differ():
    assert len({derive_seed(1, "rollout", f"t{i}", m) for i in range(50) for m in range(4)}) == 200
