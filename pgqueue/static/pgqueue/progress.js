"use strict";
{
  // Asks how far an operation is, every second, until it is over.
  const page = document.getElementById("bulk-progress");
  const bar = page.querySelector("progress");

  async function look() {
    let told;
    try {
      const answer = await fetch(page.dataset.url, { headers: { Accept: "application/json" } });
      told = await answer.json();
    } catch {
      // The server restarts, for example: it is asked again.
      setTimeout(look, 3000);
      return;
    }
    bar.value = told.percent;
    bar.textContent = `${told.percent} %`;
    for (const place of page.querySelectorAll("[data-told]")) {
      if (place.textContent !== told[place.dataset.told]) {
        place.textContent = told[place.dataset.told];
      }
    }
    if (told.is_over) {
      // As it is without scripts: without what could be done while it went on.
      location.reload();
    } else {
      setTimeout(look, 1000);
    }
  }
  setTimeout(look, 500);
}
