"""Conversations as token ids, built by appending.

Token ids that were sampled are never decoded and encoded again: the chat template is rendered once with
placeholders, cut into the delimiters that stand between turns, and from then on a conversation grows by
appending ids. That also keeps templates from rewriting earlier turns (Qwen3 takes thoughts out of them), from adding a
system turn of their own (Qwen 2.5, when there is none), and from naming the day (Llama 3), which would make the
prompts of a checkpoint differ from those that it was trained on.
"""

from collections.abc import Sequence

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from talentrl.errors import InputError

_TODAY = "26 Jul 2024"
"""What templates are told the day is: the one that Llama 3.1's names when it is told none."""
_SYSTEM, _USER, _ASSISTANT, _NEXT = "\x00system\x00", "\x00user\x00", "\x00assistant\x00", "\x00next\x00"


class ChatFormat:
    """Token ids of prompts and turns under a tokenizer's own chat template."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, thinking: bool = False) -> None:
        """Cut the tokenizer's chat template into its delimiters; `thinking` is `model.thinking`.

        Raises:
            InputError: the template does not render the four kinds of turn in order, or the tokenizer adds special
                tokens to every text, which would stand in the middle of conversations.
        """
        self.tokenizer = tokenizer
        for ids in (self.encode("text"), self.encode_untrusted("text")):
            if added := [token for token in ids if token in tokenizer.all_special_ids]:
                raise InputError(
                    f"the tokenizer adds {tokenizer.convert_ids_to_tokens(added)} to every text, also with "
                    "add_special_tokens=False; expected none, since turns are encoded one by one"
                )
        conversation = [
            {"role": "system", "content": _SYSTEM},
            {"role": "user", "content": _USER},
            {"role": "assistant", "content": _ASSISTANT},
            {"role": "user", "content": _NEXT},
        ]
        try:
            rendered = str(
                tokenizer.apply_chat_template(
                    conversation,
                    tokenize=False,
                    add_generation_prompt=True,
                    enable_thinking=thinking,
                    date_string=_TODAY,
                )
            )
        except TemplateError as error:
            raise InputError(f"the chat template does not take a system and a user turn: {error}") from error
        places = [rendered.find(mark) for mark in (_SYSTEM, _USER, _ASSISTANT, _NEXT)]
        if -1 in places or places != sorted(places):
            raise InputError("the chat template must render system, user and assistant turns in order")
        self._head = rendered[: places[0]]
        self._between = rendered[places[0] + len(_SYSTEM) : places[1]]
        self._after_assistant = rendered[places[2] + len(_ASSISTANT) : places[3]]
        # What stands before a turn that is to be sampled may hold more than before one in the past: an empty thought.
        past, sampled = rendered[places[1] + len(_USER) : places[2]], rendered[places[3] + len(_NEXT) :]
        self._before_assistant = sampled if sampled.startswith(past) else past

    def encode(self, text: str) -> list[int]:
        """Ids of `text` with no special token added (those written in the text are recognised)."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def encode_untrusted(self, text: str) -> list[int]:
        """Ids of `text` in which special tokens are ordinary characters: for retrieved or user-given text."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        return ids

    def prompt(self, system: str, user: str) -> list[int]:
        """Ids of the conversation up to the first assistant turn."""
        return (
            self.encode(self._head)
            + self.encode_untrusted(system)
            + self.encode(self._between)
            + self.encode_untrusted(user)
            + self.encode(self._before_assistant)
        )

    def turn(self, user: str, after: Sequence[int] = ()) -> list[int]:
        """Ids that end the assistant turn `after`, say `user`, and open the next assistant turn.

        An end token that the policy has sampled already is not said twice.
        """
        end = self.encode(self._after_assistant)
        if after and after[-1] == end[0] and end[0] in self.tokenizer.all_special_ids:
            end = end[1:]
        return end + self.encode_untrusted(user) + self.encode(self._before_assistant)

    def decode(self, token_ids: list[int]) -> str:
        """Text of `token_ids`, special tokens left out."""
        return str(self.tokenizer.decode(token_ids, skip_special_tokens=True))
