// Draw the overview's charts, and take over what changes while the page is open: from a stream where the
// server has them, else by asking every few seconds. Without this file the page is one of a moment.
"use strict";
(() => {
  const HEIGHT = 180;
  const live = JSON.parse(document.getElementById("pgqueue-overview-data").textContent);
  const charts = [];
  const row = document.querySelector(".pgqueue-charts");
  let width;

  function colour(name, otherwise) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || otherwise;
  }

  function columns(series) {
    return [live.chart.at, ...series.map(([name]) => live.chart[name])];
  }

  // The tables are in the time zone of the project. One that no browser knows by its name is left out.
  function inZone(seconds) {
    const moment = new Date(1000 * seconds);
    try {
      return live.zone ? uPlot.tzDate(moment, live.zone) : moment;
    } catch (error) {
      live.zone = null;
      return moment;
    }
  }

  function draw() {
    for (const each of charts.splice(0)) each.plot.destroy();
    width = row.clientWidth;
    const axis = { stroke: colour("--body-quiet-color", "#666"), grid: { stroke: colour("--hairline-color", "#ddd"), width: 1 }, ticks: { show: false } };
    const good = colour("--link-fg", "#417893"), bad = colour("--error-fg", "#ba2121");
    const plots = [
      ["pgqueue-runs", [["succeeded", good], ["failed", bad]]],
      ["pgqueue-times", [["wait", bad], ["run", good]]],
    ];
    for (const [id, series] of plots) {
      const place = document.getElementById(id);
      const plot = new uPlot({
        tzDate: inZone,
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
    pgqueueLive.take(told.sections);
    live.chart = told.chart;
    for (const { plot, series } of charts) plot.setData(columns(series));
    for (const [name, words] of Object.entries(told.in_words)) document.getElementById(`pgqueue-${name}`).setAttribute("aria-label", words);
    pgqueueLive.say(live.words.live);
  }

  // Their width and their colours are those of the moment in which they are drawn.
  draw();
  // The menu at the side changes the width, too.
  new ResizeObserver(() => row.clientWidth !== width && draw()).observe(row);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver(draw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  pgqueueLive.speak(live.words);
  if (live.stream) {
    const source = new EventSource(live.stream);
    source.addEventListener("overview", (event) => take(JSON.parse(event.data)));
    source.addEventListener("error", () => pgqueueLive.say(live.words.lost));
    source.addEventListener("denied", () => {
      source.close();
      pgqueueLive.say(live.words.denied);
    });
  } else {
    pgqueueLive.poll(live.data, take);
  }
})();
