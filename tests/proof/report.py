"""The report of a proof: a page, and the same as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tests.proof.checker.account import Account
from tests.proof.checker.anomaly import Anomaly, shortest
from tests.proof.director import Ran

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Proof {seed}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto }}
table {{ border-collapse: collapse; margin: 1rem 0 }}
th, td {{ text-align: left; padding: .2rem 1rem .2rem 0; border-bottom: 1px solid #ddd }}
td.n {{ text-align: right }}
pre {{ overflow-x: auto; background: #f5f5f5; padding: 1rem }}
.bad {{ color: #b00020 }}
</style>
<h1>{title}</h1>
<p>{summary}</p>
<h2>Promises</h2>
<table><tr><th>promise<th>anomalies{promises}</table>
{anomalies}
<h2>Faults</h2>
<table><tr><th>fault<th>times{faults}</table>
<h2>Operations</h2>
<table><tr><th>operation<th>ok<th>failed<th>unknown{operations}</table>
</html>
"""


@dataclass(frozen=True)
class Report:
    """The result of a proof."""

    ran: Ran
    account: Account
    anomalies: Mapping[str, Sequence[Anomaly]]
    seed: str
    mutation: str = ""

    @property
    def is_good(self) -> bool:
        """Whether there is no anomaly, and the run reached its end."""
        return not self.ran.complaint and not any(self.anomalies.values())

    @property
    def summary(self) -> str:
        """The duration, the counts, and the number of anomalies."""
        found = sum(map(len, self.anomalies.values()))
        planted = f" The planted fault is “{self.mutation}”." if self.mutation else ""
        early = f" It ended early: {self.ran.complaint}" if self.ran.complaint else ""
        return (
            f"{self.ran.seconds / 60:.1f} minutes, {self.ran.faults.total()} faults, "
            f"{len(self.account.operations)} operations, {len(self.account.messages)} messages, "
            f"{len(self.account.events)} events; {found} anomalies; "
            f"seed {self.seed}.{planted}{early}"
        )

    def text(self) -> str:
        """Return the report for a terminal."""
        lines = [self.summary]
        for promise, anomalies in self.anomalies.items():
            lines.append(f"{len(anomalies):6}  {promise}")
            for count, best in shortest(anomalies).values():
                lines += [f"        {best.rule}, {count} times: {best.words}"]
                lines += [f"            {line}" for line in best.history()]
        return "\n".join(lines)

    def page(self) -> str:
        """Return the report as HTML."""
        return PAGE.format(
            seed=escape(self.seed),
            title="No anomaly" if self.is_good else "Anomalies",
            summary=escape(self.summary),
            promises="".join(
                f"<tr><td{' class=bad' if found else ''}>{escape(promise)}<td class=n>{len(found)}"
                for promise, found in self.anomalies.items()
            ),
            anomalies="".join(self._shown()),
            faults="".join(
                f"<tr><td>{escape(name.replace('_', ' '))}<td class=n>{count}"
                for name, count in sorted(self.ran.faults.items())
            ),
            operations="".join(self._counted()),
        )

    def _shown(self) -> list[str]:
        return [
            f"<h3 class=bad>{escape(best.words)}</h3><p>One of {count}; the shortest history:</p>"
            f"<pre>{escape(chr(10).join(best.history()))}</pre>"
            for found in self.anomalies.values()
            for count, best in shortest(found).values()
        ]

    def _counted(self) -> list[str]:
        counts = Counter((each.do, each.end) for each in self.account.operations)
        kinds = sorted({do for do, _ in counts})
        return [
            f"<tr><td>{do}" + "".join(f"<td class=n>{counts[do, end]}" for end in ENDS)
            for do in kinds
        ]


ENDS = ("ok", "fail", "unknown")
