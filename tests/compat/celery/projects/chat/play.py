from celery import chord, group
from celery.result import AsyncResult, GroupResult

from chat.tasks import answer, embed, index, mark_failed


def play():
    asked = answer.apply_async(["hello"], {"team": "red"}, task_id="answer-1")
    indexed = chord(group(embed.s(each) for each in (1, 2)), index.s(team="red"))()
    broken = chord([embed.s(1), embed.s(-1)], index.s().on_error(mark_failed.s()))()
    return [
        asked.get(timeout=60),
        AsyncResult("answer-1").state,
        indexed.get(timeout=60),
        isinstance(indexed.parent, GroupResult),
        indexed.parent.completed_count(),
        repr(broken.get(timeout=60, propagate=False)).partition("raised")[2],
        broken.state,
        [each.state for each in broken.parent.results],
    ]
