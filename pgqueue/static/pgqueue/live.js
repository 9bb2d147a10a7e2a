// What pages that go on while they are open have in common. They have sections, and a place that says whether
// they are live.
"use strict";
const pgqueueLive = (() => {
  const POLL = 5000;
  // Milliseconds for which a pointer may rest: after that nobody is about to click.
  const RESTS = 30000;
  const state = document.getElementById("pgqueue-live");
  // The HTML that each section has or will have, and the sections that do not show it yet.
  const latest = new Map(), held = new Set();
  let moved = -RESTS, words = {};

  function say(text) {
    if (state.textContent !== text) state.textContent = text;
  }

  function isChosen(section) {
    const selection = getSelection(), focused = document.activeElement;
    return (section !== focused && section.contains(focused)) || (!selection.isCollapsed && section.contains(selection.anchorNode));
  }

  function isInUse(section) {
    return isChosen(section) || (performance.now() < moved + RESTS && section.matches(":hover"));
  }

  // A row is known by its link, or by its first cell: its figures change.
  function rowsOf(root) {
    return [...root.querySelectorAll("tbody tr, svg a")].map((row) => (row.matches("a") ? row : row.querySelector("a"))?.getAttribute("href") ?? row.cells[0].textContent);
  }

  function put(section) {
    const wide = () => [...section.querySelectorAll(".pgqueue-graph, .pgqueue-wide")];
    const places = wide().map((each) => each.scrollLeft), hadFocus = section.contains(document.activeElement);
    held.delete(section);
    section.innerHTML = latest.get(section);
    wide().forEach((each, index) => { each.scrollLeft = places[index] ?? 0; });
    if (hadFocus) {
      section.tabIndex = -1;
      section.focus({ preventScroll: true });
    }
  }

  // Figures change in their places; a cell with the focus stays as it is.
  function putFigures(section, fresh) {
    const cells = section.querySelectorAll("tbody :is(td, th)");
    fresh.querySelectorAll("tbody :is(td, th)").forEach((cell, index) => {
      const shown = cells[index];
      if (shown && shown.innerHTML !== cell.innerHTML && !isChosen(shown)) shown.innerHTML = cell.innerHTML;
    });
  }

  function announce(section, count) {
    let news = section.querySelector(":scope > .pgqueue-news");
    if (!news) {
      news = document.createElement("button");
      news.type = "button";
      news.className = "button pgqueue-news";
      news.addEventListener("click", () => put(section));
      section.prepend(news);
    }
    const text = count ? words.news.replace("{count}", count) : words.changed;
    if (news.textContent !== text) news.textContent = text;
  }

  // Show what came, but move no row of a section that is in use: neither by its own rows nor by those above it.
  function settle() {
    if (!held.size) return;
    const used = [...document.querySelectorAll("[data-section]")].filter(isInUse).at(-1);
    for (const section of [...held]) {
      if (!used || section.compareDocumentPosition(used) & Node.DOCUMENT_POSITION_PRECEDING) {
        put(section);
        continue;
      }
      const fresh = document.createElement("template");
      fresh.innerHTML = latest.get(section);
      const before = rowsOf(section), after = rowsOf(fresh.content);
      const begins = before.every((row, index) => row === after[index]);
      const isSame = begins && before.length === after.length;
      // Rows at the end of the section in use move none of its others.
      if (!isSame && !(begins && section === used && !isChosen(section))) {
        announce(section, after.filter((row) => !before.includes(row)).length);
        continue;
      }
      section.querySelector(":scope > .pgqueue-news")?.remove();
      if (isSame && before.length && isInUse(section)) putFigures(section, fresh.content);
      else if (!isChosen(section)) put(section);
    }
  }

  function take(sections) {
    for (const [name, html] of Object.entries(sections)) {
      const section = document.querySelector(`[data-section="${name}"]`);
      if (!section || latest.get(section) === html) continue;
      latest.set(section, html);
      held.add(section);
    }
    settle();
  }

  for (const name of ["pointerover", "focusout", "selectionchange"]) document.addEventListener(name, () => setTimeout(settle));
  document.addEventListener("pointermove", () => { moved = performance.now(); });
  document.documentElement.addEventListener("pointerleave", () => {
    moved = -RESTS;
    settle();
  });

  // Ask every few seconds, until `took` returns true for what is answered. The next question comes after `rest`
  // times as long as the answer took, at least.
  function poll(url, took, rest = 0) {
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

  // Take the texts of the page's language.
  function speak(given) {
    words = given;
  }

  return { speak, say, take, poll };
})();
