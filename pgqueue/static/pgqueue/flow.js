// Take over what changes on the page of a flow while it is open, by asking every few seconds until the flow
// has ended. Without this file the page reloads itself.
"use strict";
(() => {
  const POLL = 5000;
  const live = JSON.parse(document.getElementById("pgqueue-flow-data").textContent);
  const state = document.getElementById("pgqueue-live");

  function take(told) {
    for (const [name, html] of Object.entries(told.sections)) {
      const section = document.querySelector(`[data-section="${name}"]`);
      // A part that is in use is left as it is: a link that has the focus, or text that is selected.
      if (section.contains(document.activeElement) || section.contains(getSelection().isCollapsed ? null : getSelection().anchorNode)) continue;
      if (section.innerHTML === html) continue;
      const place = section.querySelector(".pgqueue-graph")?.scrollLeft;
      section.innerHTML = html;
      if (place) section.querySelector(".pgqueue-graph").scrollLeft = place;
    }
  }

  function say(words) {
    if (state.textContent !== words) state.textContent = words;
  }

  async function poll() {
    const begun = performance.now();
    try {
      const answer = await fetch(live.url, { headers: { Accept: "application/json" } });
      // Who is logged out is led to the page that asks who they are.
      if (answer.status === 403 || answer.redirected) return say(live.words.denied);
      if (!answer.ok) throw new Error(answer.status);
      const told = await answer.json();
      take(told);
      if (told.is_over) return say("");
      say(live.words.live);
    } catch {
      say(live.words.lost);
    }
    // A large flow takes the database longer: it is asked for less often.
    setTimeout(poll, Math.max(POLL, 20 * (performance.now() - begun)));
  }
  setTimeout(poll, POLL);
})();
