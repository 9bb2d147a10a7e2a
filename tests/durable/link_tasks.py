"""Durable tasks that ask people by links."""

from __future__ import annotations

from pgqueue import DurableContext, task

sent: list[str] = []


def mail(*urls: str) -> None:
    sent.extend(urls)


@task(durable=True)
def asks(run: DurableContext) -> str:
    urls = [run.signal_url("decided", answer, text="Refund 40 €?") for answer in (True, False)]
    run.step(mail, *urls)
    return "yes" if run.wait_for("decided", bool) else "no"


@task(durable=True)
def asks_twice(run: DurableContext) -> list[str]:
    answers = []
    for number in (1, 2):
        run.step(mail, run.signal_url("decided", {"number": number}, fields=["why"]))
        answers.append(run.wait_for("decided"))
    return [f"{each['number']} {each['why']}" for each in answers]


@task(durable=True)
def asks_again(run: DurableContext, recipient: str) -> list[bool | None]:
    answers = []
    for number in (1, 2):
        run.step(mail, run.signal_url("decided", number == 2, recipient=recipient))
        answers.append(run.wait_for("decided", bool, timeout=3600))
    return answers


@task(durable=True)
def asks_for_any(run: DurableContext, name: str) -> list[int]:
    answers = []
    for number in (1, 2):
        run.step(mail, run.signal_url(name, number))
        answer = run.wait_for_any(["y" * 100, name])
        answers.append(answer.payload if answer else 0)
    return answers


@task(durable=True)
def asks_anew(run: DurableContext, round: int) -> int:
    run.step(mail, run.signal_url("go"))
    run.wait_for("go")
    if round < 2:
        run.continue_as(round + 1)
    return round


@task(durable=True)
def asks_each(run: DurableContext) -> str:
    for person in ("ann", "bob"):
        run.step(mail, run.signal_url("approved", person, recipient=person))
    return f"{run.wait_for('approved')} {run.wait_for('approved')}"


@task(durable=True, encrypted=True)
def asks_in_secret(run: DurableContext) -> str:
    run.step(mail, run.signal_url("go", "hush"))
    return str(run.wait_for("go"))


@task(durable=True)
def gives(run: DurableContext, options: dict[str, object]) -> None:
    run.signal_url("go", **options)


@task(durable=True)
def gives_much(run: DurableContext) -> None:
    run.signal_url("go", [number * 7919 for number in range(5_000)])


@task(durable=True)
def asks_for_much(run: DurableContext) -> None:
    run.step(mail, run.signal_url("go", fields=[f"text {number}" for number in range(40)]))
    run.wait_for("go")
