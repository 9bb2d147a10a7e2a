// Shows the values under the pointer, or chosen with the arrow keys. The page is complete without it.
for (const figure of document.querySelectorAll("figure[data-readout]")) {
  const {at, times, texts} = JSON.parse(figure.dataset.readout);
  const frame = figure.querySelector(".frame");
  const drawing = figure.querySelector("svg");
  const cursor = figure.querySelector(".cursor");
  const time = figure.querySelector(".time");
  const outputs = [...figure.querySelectorAll("output")];
  const atRest = outputs.map((each) => each.textContent);
  let chosen = -1;

  const show = (index) => {
    chosen = index;
    const left = drawing.getBoundingClientRect().left - frame.getBoundingClientRect().left;
    cursor.hidden = false;
    cursor.style.left = `${left + at[index] * drawing.getBoundingClientRect().width}px`;
    time.textContent = times[index];
    outputs.forEach((each, series) => { each.textContent = texts[series]?.[index] ?? ""; });
  };
  const rest = () => {
    chosen = -1;
    cursor.hidden = true;
    time.textContent = "";
    outputs.forEach((each, series) => { each.textContent = atRest[series]; });
  };

  frame.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const place = (event.clientX - box.left) / box.width;
    let nearest = 0;
    at.forEach((each, index) => {
      if (Math.abs(each - place) < Math.abs(at[nearest] - place)) nearest = index;
    });
    show(nearest);
  });
  frame.addEventListener("pointerleave", rest);
  frame.tabIndex = 0;
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", "Values by time: choose with the arrow keys");
  frame.addEventListener("blur", rest);
  frame.addEventListener("keydown", (event) => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!step || !at.length) return;
    event.preventDefault();
    show(Math.min(Math.max(chosen + step, 0), at.length - 1));
  });
}
