import json
import subprocess
import sys
import textwrap

import pytest

from invariscope.errors import ConfigError
from invariscope.tasks import MarkovChain, build_task, describe_task

OWN_TASK = """
from invariscope.tasks import MarkovChain, factory_name


class Coin(MarkovChain):
    def __init__(self, bias):
        super().__init__([[bias, 1 - bias], [bias, 1 - bias]], 3, name="coin")
        self.bias = bias

    def describe(self):
        return {"factory": factory_name(type(self)), "arguments": {"bias": self.bias}}

    @classmethod
    def from_json(cls, *, bias):
        return cls(bias)


class Careless:
    def from_json(cls):
        raise TypeError("a mistake inside from_json")

    from_json = classmethod(from_json)


class Half:
    name = "half"

    @classmethod
    def from_json(cls):
        return cls()
"""


class Described:
    def __init__(self, description):
        self.description = description

    def describe(self):
        return self.description


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "own_coin_task.py").write_text(textwrap.dedent(OWN_TASK))
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("own_coin_task")
    sys.modules.pop("own_coin_task")


def test_a_task_of_ones_own_is_rebuilt_from_its_module(own_module):
    description = describe_task(own_module.Coin(0.25))
    assert description == {"factory": "own_coin_task:Coin", "arguments": {"bias": 0.25}}
    rebuilt = build_task(description)
    assert isinstance(rebuilt, own_module.Coin)
    assert rebuilt.optimum().accuracy == pytest.approx(0.75)


def test_another_process_builds_the_same_chain():
    chain = MarkovChain([[1 / 3, 2 / 3], [0.1, 0.9]], 4, name="thirds", groups=[1, 0])
    code = (
        "import sys, json, torch; from invariscope.tasks import build_task; task = build_task(json.load(sys.stdin)); "
        "print(task.name, task.groups.tolist(), task.transition.view(torch.int64).tolist(), "
        "task.batches(20, batch_size=20, seed=3)[0].targets.tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(describe_task(chain)), capture_output=True, text=True, check=True
    )
    bits = [[int.from_bytes(memoryview(x.numpy().tobytes()), "little") for x in row] for row in chain.transition]
    targets = chain.batches(20, batch_size=20, seed=3)[0].targets.tolist()
    assert done.stdout.strip() == f"thirds [1, 0] {bits} {targets}"


def test_an_object_without_describe_is_told_what_to_implement():
    with pytest.raises(ConfigError) as caught:
        describe_task(object())
    assert "type object, which has no describe()" in caught.value.given
    assert "rebuilt in another process" in caught.value.expected
    assert all(word in caught.value.do for word in ("describe()", "from_json", "engine='inline'"))


def test_a_class_that_no_other_process_can_import_is_refused():
    class Local(MarkovChain):
        pass

    with pytest.raises(ConfigError, match=r"<locals>.Local'; expected a class at the top of a module.*engine='inline'"):
        describe_task(Local([[0.5, 0.5], [0.4, 0.6]]))
    with pytest.raises(ConfigError, match=r"'__main__:Mine'; .*; move the class into a module"):
        describe_task(Described({"factory": "__main__:Mine", "arguments": {}}))


@pytest.mark.parametrize(
    "description",
    [
        None,
        "coin",
        {},
        {"factory": "m:C"},
        {"factory": "C", "arguments": {}},
        {"factory": "m:", "arguments": {}},
        {"factory": "m:C", "arguments": []},
        {"factory": "m:C", "arguments": {}, "more": 1},
    ],
)
def test_descriptions_of_another_form_are_refused(description):
    for call in (lambda: describe_task(Described(description)), lambda: build_task(description)):
        with pytest.raises(ConfigError, match=r"a task's description .*expected \{'factory': 'module:Class'.*two keys"):
            call()


@pytest.mark.parametrize("value", [float("nan"), {1, 2}])
def test_descriptions_that_are_no_json_are_refused(value):
    with pytest.raises(ConfigError, match=r"'m:C' that is no JSON: .*expected finite numbers.*tensors into lists"):
        describe_task(Described({"factory": "m:C", "arguments": {"x": value}}))


@pytest.mark.parametrize("factory", ["no_such_module_here:C", "invariscope.tasks.markov:NoSuchChain"])
def test_a_factory_that_is_not_there_is_named(factory):
    with pytest.raises(ConfigError, match=rf"{factory}', which cannot be imported: .*PYTHONPATH"):
        build_task({"factory": factory, "arguments": {}})


def test_arguments_that_do_not_fit_are_named():
    with pytest.raises(ConfigError, match=r"the arguments \['bias'\] for .*MarkovChain'.*expected a classmethod from_json"):
        build_task({"factory": "invariscope.tasks.markov:MarkovChain", "arguments": {"bias": 1}})
    with pytest.raises(ConfigError, match="expected a classmethod from_json"):
        build_task({"factory": "invariscope.tasks.task:Chance", "arguments": {}})


@pytest.mark.usefixtures("own_module")
def test_a_mistake_inside_from_json_keeps_its_own_error():
    with pytest.raises(TypeError, match="a mistake inside from_json"):
        build_task({"factory": "own_coin_task:Careless", "arguments": {}})


@pytest.mark.usefixtures("own_module")
def test_what_is_no_task_is_told_which_members_it_lacks():
    with pytest.raises(ConfigError, match=r"makes a Half without vocab_size, .*optimum; expected a Task"):
        build_task({"factory": "own_coin_task:Half", "arguments": {}})
