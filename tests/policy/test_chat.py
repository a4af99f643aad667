"""Conversations built by appending ids: equal to what the chat template renders, safe with untrusted text."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import byte_tokenizer
from transformers import PreTrainedTokenizerFast

from talentrl.errors import InputError
from talentrl.policy.chat import ChatFormat

TEMPLATES = ("chatml", "qwen2", "qwen3", "llama3", "plain")
SYSTEM, QUESTION = "Choose. é", "Who <wrote> 世界?\nSay."
ANSWERS = ("<talent>bridge</talent>", "<search>x y</search>", "<answer>z</answer>")
OBSERVATIONS = ("Strategy: go.\n\nskill: Do.", "<information>a\nb</information>")
TOKENIZERS = {name: byte_tokenizer(name) for name in TEMPLATES}
FORMATS = {name: ChatFormat(tokenizer, thinking=True) for name, tokenizer in TOKENIZERS.items()}
DAY = "26 Jul 2024"


def render(name, conversation):
    roles = ["system", "user"] + ["assistant", "user"] * len(conversation)
    messages = [{"role": role, "content": text} for role, text in zip(roles, conversation, strict=False)]
    return TOKENIZERS[name].apply_chat_template(messages, add_generation_prompt=True, date_string=DAY)["input_ids"]


@pytest.mark.parametrize("name", TEMPLATES)
def test_built_ids_are_the_templates_own_rendering(name):
    chat = FORMATS[name]
    ids = chat.prompt(SYSTEM, QUESTION)
    assert ids == render(name, [SYSTEM, QUESTION])
    conversation = [SYSTEM, QUESTION]
    for answer, observation in zip(ANSWERS, OBSERVATIONS, strict=False):
        ids = ids + chat.encode(answer) + chat.turn(observation)
        conversation += [answer, observation]
        assert ids == render(name, conversation)


# Delimiters that templates react to are left out here: they have tests of their own below.
contents = st.text(st.characters(exclude_characters="<>|", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text == text.strip()
)


@given(st.sampled_from(TEMPLATES), contents, contents, contents, contents)
def test_any_conversation_is_rendered_alike(name, system, question, answer, observation):
    chat = FORMATS[name]
    ids = chat.prompt(system, question) + chat.encode(answer) + chat.turn(observation)
    assert ids == render(name, [system, question, answer, observation])


@given(st.sampled_from(TEMPLATES), st.data())
def test_special_tokens_in_untrusted_text_are_ordinary_characters(name, data):
    tokenizer, chat = TOKENIZERS[name], FORMATS[name]
    text = "".join(data.draw(st.lists(st.one_of(st.sampled_from(tokenizer.all_special_tokens), contents), max_size=5)))
    ids = chat.encode_untrusted(text)
    assert not set(ids) & set(tokenizer.all_special_ids)
    assert tokenizer.decode(ids) == chat.decode(ids) == text


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_text_can_open_a_turn(name):
    tokenizer, chat = TOKENIZERS[name], FORMATS[name]
    attack = "x" + "".join(tokenizer.all_special_tokens) + "y"
    special = set(tokenizer.all_special_ids)

    def delimiters(ids):
        return [token for token in ids if token in special]

    assert delimiters(chat.prompt(attack, attack)) == delimiters(chat.prompt("x", "y"))
    assert delimiters(chat.turn(attack)) == delimiters(chat.turn("x"))
    assert delimiters(chat.encode(attack)), "ids that the format itself writes are recognised"


def test_template_that_rewrites_earlier_turns_does_not_rewrite_ids():
    chat = FORMATS["qwen3"]
    thought = chat.encode("<think>\nhm\n</think>\n\n<search>x</search>")
    ids = chat.prompt("s", "u") + thought + chat.turn("o")
    assert "hm" in chat.decode(ids)
    assert "hm" not in chat.decode(render("qwen3", ["s", "u", chat.decode(thought), "o"]))


def test_every_turn_of_a_model_that_may_not_think_opens_with_an_empty_thought():
    """Also in the past, where the template leaves it out: what was said there was said after it."""
    chat, empty = ChatFormat(TOKENIZERS["qwen3"]), "<think>\n\n</think>\n\n"
    ids = chat.prompt("s", "u") + chat.encode("a") + chat.turn("o")
    text = FORMATS["qwen3"].decode(render("qwen3", ["s", "u", "a", "o"]))
    opening = "assistant\n"
    assert chat.decode(ids) == text.replace(opening, opening + empty)
    for other in set(TEMPLATES) - {"qwen3"}:
        assert ChatFormat(TOKENIZERS[other]).prompt("s", "u") == FORMATS[other].prompt("s", "u")


def test_prompts_do_not_change_with_the_day():
    today = datetime.date.today().strftime("%d %b %Y")
    messages = [{"role": "system", "content": "s"}]
    assert f"Day: {today}" in TOKENIZERS["llama3"].apply_chat_template(messages, tokenize=False)
    assert f"Day: {DAY}" in FORMATS["llama3"].decode(FORMATS["llama3"].prompt("s", "u"))


@pytest.mark.parametrize("conversation", [["s", "u"], ["s", "u", "a", "o"]])
def test_no_template_adds_a_system_turn_to_ours(conversation):
    messages = [{"role": "user", "content": "u"}]
    assert TOKENIZERS["qwen2"].apply_chat_template(messages, tokenize=False).count("system") == 1
    assert FORMATS["qwen2"].decode(render("qwen2", conversation)).count("system") == 1
    assert "Be kind" not in FORMATS["qwen2"].decode(FORMATS["qwen2"].prompt("s", "u"))


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_sampled_end_token_is_not_said_twice(name):
    tokenizer, chat = TOKENIZERS[name], FORMATS[name]
    sampled = [*chat.encode("no tag"), tokenizer.eos_token_id]
    ids = chat.prompt("s", "u") + sampled + chat.turn("o", sampled)
    assert ids == render(name, ["s", "u", "no tag", "o"])
    assert chat.decode(sampled) == "no tag"


def test_a_turn_that_ends_like_a_delimiter_keeps_its_delimiter():
    # The delimiter after an assistant turn may begin with an ordinary token, here a line break.
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.content + '\n\n' }}{% endfor %}"
    chat = ChatFormat(tokenizer)
    assert chat.turn("o", chat.encode("said\n")) == chat.encode("\n\no\n\n")


class StartsAnew(PreTrainedTokenizerFast):
    """Puts the start token before every text, whatever it is asked for."""

    def encode(self, *args, **kwargs):
        return [self.bos_token_id, *super().encode(*args, **kwargs)]


def test_a_tokenizer_that_starts_every_text_anew_is_refused():
    tokenizer = byte_tokenizer("llama3")
    tokenizer.__class__ = StartsAnew
    with pytest.raises(InputError, match=r"^the tokenizer adds \['<\|begin_of_text\|>'\] to every text"):
        ChatFormat(tokenizer)


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('no system turn') }}",
        "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}",
        "{% for m in messages | reverse %}{{ m.content }}{% endfor %}",
        "{{ messages[-1].content }}",
    ],
)
def test_template_without_the_four_kinds_of_turn_is_refused(template):
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(InputError, match="chat template") as caught:
        ChatFormat(tokenizer)
    assert "\n" not in str(caught.value)
