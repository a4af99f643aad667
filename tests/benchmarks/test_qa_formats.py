"""Each set's own published format, in small: what is read, and what is refused."""

import json

import pytest

from talentrl.benchmarks.qa_sets import load_qa
from talentrl.errors import InputError


def only_task(name, path, corpus=None):
    tasks = load_qa(name, path, corpus)
    (split,) = tasks.tasks["split"]
    (task,) = tasks.split(split)
    return task, tasks.passages.rows()


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "0", "contents": "\\"Moon\\"\\nThe Moon is far."}\n')
    return path


def test_natural_questions_are_numbered(tmp_path, corpus):
    path = tmp_path / "NQ-open.dev.jsonl"
    path.write_text("".join(json.dumps({"question": f"q{n}", "answer": ["a", "b"]}) + "\n" for n in range(2)))
    tasks = load_qa("nq", path, corpus).split("test")
    assert [(task.task_id, task.instruction, task.answers) for task in tasks] == [
        ("nq_test_0", "q0", ("a", "b")),
        ("nq_test_1", "q1", ("a", "b")),
    ]


@pytest.mark.parametrize("indent", [None, 4])
def test_triviaqa_gold_is_value_aliases_normalised_and_human(tmp_path, corpus, indent):
    answer = {
        "Value": "Sunset Blvd",
        "Aliases": ["Sunset Blvd", "Sunset Boulevard"],
        "NormalizedAliases": ["sunset blvd", ""],
        "HumanAnswers": ["Sunset Bvd"],
        "Type": "WikipediaEntity",
    }
    data = {"Data": [{"QuestionId": "tc_33", "Question": "Which?", "Answer": answer}], "Version": 1.0}
    path = tmp_path / "unfiltered-web-dev.json"
    path.write_text(json.dumps(data, indent=indent))
    task, _ = only_task("triviaqa", path, corpus)
    assert (task.task_id, task.split) == ("tc_33", "test")
    assert task.answers == ("Sunset Blvd", "Sunset Boulevard", "sunset blvd", "Sunset Bvd")
    path.write_text(json.dumps({"Data": [{"QuestionId": "tc_33", "Question": "Which?"}]}))
    with pytest.raises(InputError, match=r"unfiltered-web-dev.json\[0\]: field 'Answer': expected an object"):
        load_qa("triviaqa", path, corpus)


POPQA_HEADER = "id\tsubj\tprop\ts_pop\tquestion\tpossible_answers\n"


def test_popqa_table_with_json_inside(tmp_path, corpus):
    path = tmp_path / "popQA.tsv"
    path.write_text(POPQA_HEADER + '42\tAda\toccupation\t7\tWhat is Ada?\t"[""poet"", ""writer""]"\n')
    task, _ = only_task("popqa", path, corpus)
    assert (task.task_id, task.instruction, task.answers) == ("42", "What is Ada?", ("poet", "writer"))
    assert (task.payload["prop"], task.payload["subj"]) == ("occupation", "Ada")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("42\tAda\to\t7\tWhat?\tpoet\n", r"popQA.tsv:2: field 'possible_answers': expected a JSON list of texts"),
        ('42\tAda\to\t7\tWhat?\t"[""\\ud800""]"\n', r"popQA.tsv:2: field 'possible_answers': expected a JSON list"),
        ("42\tAda\to\t7\tWhat?\t[]\n", r"popQA.tsv:2: field 'possible_answers': expected a list of texts"),
        ('42\tAda\to\t7\t\t"[""x""]"\n', r"popQA.tsv:2: field 'question': expected a text"),
        ("42\tAda\n", r"popQA.tsv:2: expected 6 columns"),
        ('42\tAda\to\t7\tWhat?\t[]\t"extra"\n', r"popQA.tsv:2: expected 6 columns"),
    ],
)
def test_a_broken_row_is_refused(tmp_path, corpus, row, message):
    path = tmp_path / "popQA.tsv"
    path.write_text(POPQA_HEADER + row)
    with pytest.raises(InputError, match=message):
        load_qa("popqa", path, corpus)


def hotpot(**changes):
    return {
        "_id": "5a8",
        "question": "Were A and B of one nation?",
        "answer": "yes",
        "type": "comparison",
        "level": "hard",
        "supporting_facts": [["A", 0], ["B", 0], ["A", 1]],
        "context": [["A", ["A is here.", " A is old."]], ["B", ["B is there."]], ["C", ["C."]], ["D", [""]]],
    } | changes


def test_hotpotqa_sentences_become_passages(tmp_path):
    path = tmp_path / "hotpot_dev_distractor_v1.json"
    path.write_text(json.dumps([hotpot()]))
    task, passages = only_task("hotpotqa", path)
    assert (task.task_id, task.split, task.answers) == ("5a8", "dev", ("yes",))
    assert passages == [("A", "A", "A is here. A is old."), ("B", "B", "B is there."), ("C", "C", "C.")]
    assert task.payload == {
        "type": "comparison",
        "level": "hard",
        "supporting_titles": ["A", "B"],
        "passages": ["A", "B", "C"],
        "supporting": ["A", "B"],
    }


def test_2wiki_keeps_its_evidence(tmp_path):
    triples = [["A", "director", "X"], ["X", "mother", "Y"]]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps([hotpot(evidences=triples, type="compositional")]))
    task, _ = only_task("2wikimultihopqa", path)
    assert task.payload["evidences"] == triples
    assert task.benchmark == "2wikimultihopqa"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer": None}, r"hotpot.json\[0\]: field 'answer': expected a text, found nothing"),
        ({"context": [["A"]]}, r"field 'context': expected a list of pairs"),
        ({"context": [["A", "text"]]}, r"field 'context\[0\].sentences': expected a list of sentences, found 'text'"),
        ({"context": [[" ", ["text"]]]}, r"field 'context\[0\].title': expected a text"),
        ({"supporting_facts": None}, r"field 'supporting_facts': expected a list of pairs, found nothing"),
    ],
)
def test_a_broken_hotpotqa_item_is_refused(tmp_path, changes, message):
    path = tmp_path / "hotpot.json"
    path.write_text(json.dumps([hotpot(**changes)]))
    with pytest.raises(InputError, match=message):
        load_qa("hotpotqa", path)


def musique(**changes):
    return {
        "id": "2hop__1_2",
        "question": "Who is the spouse of the Green performer?",
        "answer": "Miquette",
        "answer_aliases": ["Giraudy", "Miquette"],
        "answerable": True,
        "paragraphs": [
            {"idx": 0, "title": "Green", "paragraph_text": "Green is by Steve.", "is_supporting": True},
            {"idx": 1, "title": "Red", "paragraph_text": "Red.", "is_supporting": False},
        ],
        "question_decomposition": [{"id": 1, "question": "Green >> performer", "answer": "Steve"}],
    } | changes


def test_musique_steps_point_to_titles(tmp_path):
    path = tmp_path / "musique_ans_v1.0_dev.jsonl"
    step = {"question": "Green >> performer", "answer": "Steve", "paragraph_support_idx": 0}
    path.write_text(json.dumps(musique(question_decomposition=[step])) + "\n")
    task, passages = only_task("musique", path)
    assert (task.split, task.answers) == ("dev", ("Miquette", "Giraudy"))
    assert [passage[0] for passage in passages] == ["Green", "Red"]
    assert task.payload["hops"] == 1
    assert task.payload["supporting"] == ["Green"]
    assert task.payload["decomposition"] == [{"question": "Green >> performer", "answer": "Steve", "title": "Green"}]


def test_questions_without_an_answer_are_refused(tmp_path):
    path = tmp_path / "musique_full.jsonl"
    path.write_text(json.dumps(musique(answerable=False)) + "\n")
    with pytest.raises(InputError, match=r"musique_full.jsonl:1: field 'answerable': expected true .*musique_ans"):
        load_qa("musique", path)


def test_bamboogle_table(tmp_path, corpus):
    path = tmp_path / "Bamboogle.csv"
    path.write_bytes('\ufeffQuestion,Answer\r\n"Who, then?",james madison\r\n'.encode())
    task, _ = only_task("bamboogle", path, corpus)
    assert (task.task_id, task.instruction, task.answers) == ("bamboogle_test_0", "Who, then?", ("james madison",))


@pytest.mark.parametrize("name", ["nq", "hotpotqa", "popqa", "musique", "bamboogle"])
def test_the_hub_copys_format_is_one_for_all(tmp_path, corpus, name):
    path = tmp_path / "dev.jsonl"
    fields = {"id": "dev_0", "question": "q?", "golden_answers": ["a"], "metadata": {"type": "bridge", "other": {}}}
    path.write_text(json.dumps(fields) + "\n")
    task, _ = only_task(name, path, corpus)
    assert (task.task_id, task.split, task.answers) == ("dev_0", "dev", ("a",))
    assert task.payload["type"] == "bridge"
