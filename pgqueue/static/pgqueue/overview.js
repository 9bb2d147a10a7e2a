// Draw the overview's charts, and take over what changes while the page is open: from a stream where the
// server has them, else by asking every few seconds. Without this file the page is one of a moment.
"use strict";
(() => {
  const POLL = 5000;
  const HEIGHT = 180;
  const live = JSON.parse(document.getElementById("pgqueue-overview-data").textContent);
  const state = document.getElementById("pgqueue-live");
  const charts = [];

  function colour(name, otherwise) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || otherwise;
  }

  function columns(series) {
    return [live.chart.at, ...series.map(([name]) => live.chart[name])];
  }

  function draw() {
    for (const each of charts.splice(0)) each.plot.destroy();
    const axis = { stroke: colour("--body-quiet-color", "#666"), grid: { stroke: colour("--hairline-color", "#ddd"), width: 1 }, ticks: { show: false } };
    const good = colour("--link-fg", "#417893"), bad = colour("--error-fg", "#ba2121");
    const plots = [
      ["pgqueue-runs", [["succeeded", good], ["failed", bad]]],
      ["pgqueue-times", [["wait", bad], ["run", good]]],
    ];
    for (const [id, series] of plots) {
      const place = document.getElementById(id);
      const plot = new uPlot({
        width: Math.max(place.clientWidth, 200),
        height: HEIGHT,
        cursor: { show: false },
        legend: { live: false },
        axes: [axis, { ...axis, size: 55 }],
        series: [{}, ...series.map(([name, stroke]) => ({ label: live.words[name], stroke, width: 2, spanGaps: true, points: { show: true, size: 4, fill: stroke } }))],
      }, columns(series), place);
      charts.push({ plot, series });
    }
  }

  function take(told) {
    for (const [name, html] of Object.entries(told.sections)) {
      const section = document.querySelector(`[data-section="${name}"]`);
      // A part that is in use is left as it is: a link that has the focus, or text that is selected.
      if (section.contains(document.activeElement) || section.contains(getSelection().isCollapsed ? null : getSelection().anchorNode)) continue;
      if (section.innerHTML !== html) section.innerHTML = html;
    }
    live.chart = told.chart;
    for (const { plot, series } of charts) plot.setData(columns(series));
    for (const [name, words] of Object.entries(told.in_words)) document.getElementById(`pgqueue-${name}`).setAttribute("aria-label", words);
    say(live.words.live);
  }

  function say(words) {
    if (state.textContent !== words) state.textContent = words;
  }

  async function poll() {
    try {
      const answer = await fetch(live.data, { headers: { Accept: "application/json" } });
      // Who is logged out is led to the page that asks who they are.
      if (answer.status === 403 || answer.redirected) return say(live.words.denied);
      if (!answer.ok) throw new Error(answer.status);
      take(await answer.json());
    } catch {
      say(live.words.lost);
    }
    setTimeout(poll, POLL);
  }

  // Their width and their colours are those of the moment in which they are drawn.
  draw();
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver(draw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  if (live.stream) {
    const source = new EventSource(live.stream);
    source.addEventListener("overview", (event) => take(JSON.parse(event.data)));
    source.addEventListener("error", () => say(live.words.lost));
    source.addEventListener("denied", () => {
      source.close();
      say(live.words.denied);
    });
  } else {
    setTimeout(poll, POLL);
  }
})();
