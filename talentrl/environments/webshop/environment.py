"""WebShop as an environment: `search[words]` and `click[name]`, until `click[buy now]` ends and pays.

Two things differ from the published text mode, on purpose. A search is valid only where the page has a search box,
as its own list of actions says (its code runs one anywhere). The keywords `<r>`, `<a>`, `<c>` and `<q>`, which list
products at random or by hidden labels for debugging, are refused: a policy could learn to read its goal from them.
"""

import re

from talentrl.benchmarks.taskset import Task
from talentrl.environments.environment import Outcome, Step
from talentrl.environments.webshop.pages import SEPARATOR, Page, State, View, render
from talentrl.environments.webshop.reward import Goal, reward
from talentrl.environments.webshop.shop import Shop
from talentrl.errors import InputError
from talentrl.policy.parser import Action

LONGEST = 1000
"""Characters of a command; no published instruction of the small catalogue has more than 300."""
ANY_SEARCH = "search[<your query>]"
NO_ACTION = "No action found. Write <action>search[words]</action> or <action>click[name]</action>."
_COMMAND = re.compile(r"(search|click)\[(.+)\]", re.DOTALL)
_DEBUG = ("<r>", "<a>", "<c>", "<q>")
_SHOWN = 12


class WebShopEnvironment:
    """One goal in one shop. The return is the reward of the purchase, 0 without one."""

    def __init__(self, task: Task, shop: Shop, show_instruction: bool = False) -> None:
        """Work on `task` in `shop`.

        Args:
            task: a task of `load_webshop`.
            shop: where its product is sold.
            show_instruction: repeat the instruction on every page, as the published text mode does; verl-agent and
                SkillRL cut it off, since the conversation holds it already.

        Raises:
            InputError: the task is not one of WebShop, or the shop does not sell its product.
        """
        self.version = shop.version
        self._shop = shop
        self._goal = read_goal(task, shop)
        self._instruction = task.instruction if show_instruction else None
        self._stand(State())

    def reset(self) -> str:
        """See `Environment.reset`."""
        self._stand(State())
        return self._text()

    def step(self, action: Action | None) -> Step:
        """See `Environment.step`; action kind is `action`."""
        if self._state.view is View.DONE:
            return Step("The shop is closed: you have bought.", done=True, valid=False)
        if action is None or action.kind != "action":
            return Step(NO_ACTION, valid=False)
        found = _COMMAND.match(action.argument.strip()) if len(action.argument) <= LONGEST else None
        if found is None:
            return self._refuse()
        verb, argument = found.group(1), found.group(2).strip().lower()
        following = self._page.clicks.get(argument) if verb == "click" else self._searched(argument)
        if following is None:
            return self._refuse()
        self._stand(following)
        if following.view is View.DONE:
            return Step("", done=True)
        return Step(self._text())

    def admissible(self) -> list[str]:
        """See `Environment.admissible`; `ANY_SEARCH` stands for a search with any words."""
        if self._state.view is View.SEARCH:
            return [ANY_SEARCH]
        return sorted(f"click[{name}]" for name in self._page.clicks)

    def outcome(self) -> Outcome:
        """The reward as the return; `score`, the reward in per cent, and `success`, whether it is 1, beside it."""
        value = 0.0
        if self._state.view is View.DONE and self._state.product is not None:
            bought = self._shop.catalogue.product(self._state.product)
            value = reward(self._goal, bought, dict(self._state.options)).value
        return Outcome(value, {"score": 100 * value, "success": float(value == 1)})

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_page"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._stand(self._state)

    def _stand(self, state: State) -> None:
        """Be in `state`; its page is kept, since the next step asks it where clicks lead."""
        self._state = state
        self._page: Page = render(state, self._shop.catalogue)

    def _text(self) -> str:
        strings = self._page.strings
        if self._instruction is not None:
            title = ["WebShop"] if self._state.view is View.SEARCH else []
            strings = [*title, "Instruction:", self._instruction, *strings]
        return SEPARATOR.join(strings)

    def _searched(self, words: str) -> State | None:
        if self._state.view is not View.SEARCH or words.split(" ", 1)[0] in _DEBUG:
            return None
        return State(View.RESULTS, self._shop.search(words))

    def _refuse(self) -> Step:
        """Say what is possible instead, never what was written: it may be anything."""
        commands = self.admissible()
        more = f", and {len(commands) - _SHOWN} more" if len(commands) > _SHOWN else ""
        return Step(f"Not possible here; nothing changed. Possible: {', '.join(commands[:_SHOWN])}{more}.", valid=False)


def read_goal(task: Task, shop: Shop) -> Goal:
    """The goal in a task's payload.

    Raises:
        InputError: a field is missing, or the shop does not sell the goal's product.
    """
    payload = task.payload
    missing = [name for name in ("asin", "attributes", "options", "price_upper") if name not in payload]
    if missing:
        raise InputError(f"task {task.task_id!r}: payload keys {missing} are missing, expected a WebShop goal")
    options = payload["options"]
    return Goal(
        shop.catalogue.product(shop.catalogue.position(payload["asin"])),
        tuple(payload["attributes"]),
        tuple(options.items()) if isinstance(options, dict) else tuple(options),
        payload["price_upper"],
    )
