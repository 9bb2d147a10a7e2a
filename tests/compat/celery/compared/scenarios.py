# ruff: noqa: E501
"""What is done on both: each scenario is a name and a canvas, described by lists."""

NESTED = {
    "alone": lambda f: f,
    "first of a chain": lambda f: ["chain", f, ["add", 1]],
    "first of a long chain": lambda f: ["chain", f, ["add", 1], ["add", 2], ["add", 3]],
    "last of a chain": lambda f: ["chain", ["add", 1, 1], f],
    "in the middle of a chain": lambda f: ["chain", ["add", 1, 1], f, ["add", 2]],
    "before an immutable one": lambda f: ["chain", f, ["add", 1, 1, {"si": True}]],
    "of a group": lambda f: ["group", f, ["add", 1, 1]],
    "of a header": lambda f: ["chord", [f, ["add", 1, 1]], ["total"]],
    "a header": lambda f: ["chord", [f], ["total"]],
    "before an immutable body": lambda f: ["chord", [f, ["add", 1, 1]], ["total", [1], {"si": True}]],
    "a body": lambda f: ["chord", [["add", 1, 1], ["add", 2, 2]], f],
    "first of a chain in a header":
        lambda f: ["chord", [["chain", f, ["add", 1]], ["add", 1, 1]], ["total"]],
    "last of a chain in a header":
        lambda f: ["chord", [["chain", ["add", 1, 1], f], ["add", 1, 1]], ["total"]],
    "before a chord": lambda f: ["chain", f, ["group", ["add", 1], ["add", 2]], ["total"]],
    "of a group in a chain": lambda f: ["chain", ["add", 1, 1], ["group", f, ["add", 2]], ["total"]],
    "of a chord in a chain":
        lambda f: ["chain", ["add", 1, 1], ["chord", [["add", 2], f], ["total"]], ["add", 3]],
    "of a chain in a group": lambda f: ["group", ["chain", f, ["add", 1]], ["add", 1, 1]],
    "first of the body's chain":
        lambda f: ["chord", [["add", 1, 1], ["add", 1, 2]], ["chain", f, ["add", 1]]],
    "last of the body's chain":
        lambda f: ["chord", [["add", 1, 1], ["add", 1, 2]], ["chain", ["total"], f]],
    "of a chord in a header":
        lambda f: ["chord", [["chord", [f, ["add", 1, 1]], ["total"]], ["add", 1, 2]], ["total"]],
    "body of a chord in a header":
        lambda f: ["chord", [["chord", [["add", 1, 1], ["add", 1, 3]], f], ["add", 1, 2]], ["total"]],
    "a chain of one group": lambda f: ["chain", ["group", f, ["add", 1, 1]]],
    "before two chords": lambda f: [
        "chain", f, ["group", ["add", 1], ["add", 2]], ["group", ["total"], ["total"]], ["total"]],
}  # fmt: skip
"""Places of a task in what surrounds it."""

FAILING = {
    "fails": ["fail", {"errback": "new"}],
    "finds no file": ["fail", {"kwargs": {"error": "FileNotFoundError"}, "errback": "old"}],
    "fails as expected": ["expected"],
    "is retried, then fails": ["hopeless", {"errback": "new"}],
    "is retried, then succeeds": ["flaky", 1],
}
"""What the task does, in every place."""

SOME = ("alone", "first of a chain", "in the middle of a chain", "of a header", "a body",
        "first of a chain in a header", "before a chord", "of a group")  # fmt: skip
ELSE = {
    "fails with an error of its own": ["fail", {"kwargs": {"error": "Refused"}}],
    "is retried by itself, then fails": ["stubborn", {"errback": "bound"}],
    "is retried with its arguments": ["same", 1],
    "has a task_id": ["fail", {"task_id": "job-{}", "errback": "old"}],
    "has expired": ["add", 1, 1, {"expires": -1}],
    "fails, and keeps no result": ["quiet_fail", {"errback": "new"}],
    "succeeds, and keeps no result": ["quiet", 1],
    "is replaced by one that fails": ["replaced", {"kwargs": {"by": ["fail"]}, "errback": "new"}],
}
"""What the task does in some places."""


def scenarios():
    """Return all, by their names."""
    found = {}
    for place, around in NESTED.items():
        for what, task in FAILING.items():
            found[f"{what}: {place}"] = around(task)
        whole = list(around(["fail"]))
        options = whole.pop() if isinstance(whole[-1], dict) else {}
        if whole[0] != "group":
            found[f"on_error of the whole: {place}"] = [*whole, {**options, "errback": "new"}]
    for number, place in enumerate(SOME):
        for what, task in ELSE.items():
            found[f"{what}: {place}"] = NESTED[place](with_id(task, number))
    return {**found, **OTHERS}


def with_id(task, number):
    """Return a task with a task_id of its own where it has one."""
    *parts, options = task
    if not isinstance(options, dict) or "task_id" not in options:
        return task
    return [*parts, {**options, "task_id": options["task_id"].format(number)}]


ADD, SUM = ["add", 1, 1], ["total"]
OTHERS = {
    "a chain of one group of three": ["chain", ["group", ADD, ADD, ADD]],
    "a chain of a chain of one group": ["chain", ["chain", ["group", ADD, ADD]]],
    "a group of a chain of one group": ["group", ["chain", ["group", ADD, ADD]], ADD],
    "a chain that begins with a group of one": ["chain", ["group", ADD], ["linked"]],
    "a chain with a group of one": ["chain", ADD, ["group", ["add", 1]], ["linked"]],
    "a chain that ends with a group": ["chain", ADD, ["group", ["add", 1], ["add", 2]]],
    "a header that is a chain": ["chord", ["chain", ["add", 1, 2], ["add", 3, 4]], SUM],
    "a header that is a group": ["chord", ["group", ADD, ADD], SUM],
    "a header of groups": ["chord", [["group", ADD, ADD], ADD], SUM],
    "two groups one after another":
        ["chain", ["group", ADD, ADD], ["group", ["total"], ["total"]]],
    "a body that is a group": ["chord", [ADD, ADD], ["group", ["total"], ["total"]]],
    "a link": ["add", 1, 1, {"link": ["linked"]}],
    "a link of one that fails": ["fail", {"link": ["linked"]}],
    "a link of a chain": ["chain", ADD, ["add", 1], {"link": ["linked"]}],
    "a link that fails": ["add", 1, 1, {"link": ["fail", {"errback": "new"}]}],
    "a link that is a chain that fails": ["add", 1, 1, {"link": ["chain", ["fail"], ["linked"]]}],
    "ignores itself": ["ignored"],
    "ignores itself in a chain": ["chain", ["ignored"], ["add", 1]],
    "rejects itself": ["rejected"],
    "rejects itself with an errback": ["rejected", {"errback": "new"}],
    "asks for retries without an error": ["tired", {"errback": "new"}],
    "asks for retries without an error in a chain": ["chain", ["tired"], ["add", 1]],
    "is too slow": ["slow", {"errback": "new"}],
    "is too slow in a header": ["chord", [["slow"], ADD], SUM],
    "two fail in a group": ["group", ["fail"], ["fail", {"kwargs": {"error": "OSError"}}]],
    "loses its connection": ["fail", {"kwargs": {"error": "ConnectionResetError"}}],
    "misses a key": ["fail", {"kwargs": {"error": "KeyError"}}],
    "is replaced": ["replaced", {"kwargs": {"by": ["add", 2, 2]}}],
    "is replaced by a chain": ["replaced", {"kwargs": {"by": ["chain", ADD, ["add", 3]]}}],
    "is replaced by a chain that fails":
        ["replaced", {"kwargs": {"by": ["chain", ["fail"], ["add", 3]]}}],
    "is replaced by a chord": ["replaced", {"kwargs": {"by": ["chord", [ADD, ADD], SUM]}}],
    "is replaced by a chord that fails":
        ["replaced", {"kwargs": {"by": ["chord", [["fail"], ADD], SUM]}}],
    "is replaced in a chain": ["chain", ["replaced", {"kwargs": {"by": ADD}}], ["add", 1]],
    "is replaced in a header": ["chord", [["replaced", {"kwargs": {"by": ADD}}], ADD], SUM],
    "is replaced in a header by a chain that fails":
        ["chord", [["replaced", {"kwargs": {"by": ["chain", ["fail"], ["add", 3]]}}], ADD], SUM],
    "a body with an errback": ["chord", [["fail"], ADD], ["total", {"errback": "new"}]],
    "a body with an old errback": ["chord", [["fail"], ADD], ["total", {"errback": "old"}]],
    "a body with a task_id and an old errback":
        ["chord", [["fail"], ADD], ["total", {"errback": "old", "task_id": "job-body"}]],
    "a body with an errback after a chain that fails":
        ["chord", [["chain", ["fail"], ["add", 1]], ADD], ["total", {"errback": "new"}]],
    "a body with an errback after one before the chord":
        ["chain", ["fail"], ["group", ["add", 1], ["add", 2]], ["total", {"errback": "new"}]],
    "an errback of the rest of a chain": ["chain", ["fail"], ["add", 1, {"errback": "new"}]],
    "a body that is a chain with an errback":
        ["chord", [["fail"], ADD], ["chain", SUM, ["add", 1], {"errback": "new"}]],
    "a body that is a group with errbacks":
        ["chord", [["fail"], ADD], ["group", ["total", {"errback": "new"}], ["total"]]],
    "a delayed one in a chain that fails":
        ["chain", ["fail"], ["add", 1, {"countdown": 1}]],
    "a delayed one fails in a chain": ["chain", ["fail", {"countdown": 1}], ["add", 1]],
    "request.args in a chain": ["chain", ADD, ["add", 10], ["add", 20]],
    "request.args of a body": ["chord", [ADD, ["add", 2, 2]], ["total"]],
    "immutable in a chain": ["chain", ADD, ["add", 5, 5, {"si": True}], ["add", 1]],
}  # fmt: skip
REVOKED = {
    "revoked alone": (["add", 1, 1, {"countdown": 3}], []),
    "revoked first of a chain": (["chain", ["add", 1, 1, {"countdown": 3}], ["add", 1]], ["parent"]),
    "revoked in a group": (["group", ["add", 1, 1, {"countdown": 3}], ADD], [0]),
    "revoked in a header": (["chord", [["add", 1, 1, {"countdown": 3}], ADD], SUM], ["parent", 0]),
}  # fmt: skip
"""What is revoked after it was called, and the way to it from the result."""
