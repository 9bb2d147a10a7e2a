// What pages that go on while they are open have in common. They have sections, and a place that says whether
// they are live.
"use strict";
const pgqueueLive = (() => {
  const POLL = 5000;
  const state = document.getElementById("pgqueue-live");

  function say(words) {
    if (state.textContent !== words) state.textContent = words;
  }

  function take(sections) {
    for (const [name, html] of Object.entries(sections)) {
      const section = document.querySelector(`[data-section="${name}"]`);
      if (!section) continue;
      // A part that is in use is left as it is: a link that has the focus, or text that is selected.
      if (section.contains(document.activeElement) || section.contains(getSelection().isCollapsed ? null : getSelection().anchorNode)) continue;
      if (section.innerHTML !== html) section.innerHTML = html;
    }
  }

  // Ask every few seconds, until `took` returns true for what is answered. The next question comes after `rest`
  // times as long as the answer took, at least.
  function poll(url, words, took, rest = 0) {
    async function ask() {
      const begun = performance.now();
      try {
        const answer = await fetch(url, { headers: { Accept: "application/json" } });
        // Who is logged out is led to the page that asks who they are.
        if (answer.status === 403 || answer.redirected) return say(words.denied);
        if (!answer.ok) throw new Error(answer.status);
        if (took(await answer.json())) return say("");
        say(words.live);
      } catch {
        say(words.lost);
      }
      setTimeout(ask, Math.max(POLL, rest * (performance.now() - begun)));
    }
    setTimeout(ask, POLL);
  }

  return { say, take, poll };
})();
