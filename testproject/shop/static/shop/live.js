"use strict";

// Orders, the newest first. What is on the page already may come once more.
function followOrders(list) {
  const status = document.querySelector("[role=status]");
  const say = (state) => { status.dataset.state = status.textContent = state; };
  const events = new EventSource(list.dataset.events);
  events.addEventListener("order.placed", (event) => {
    const {order_id: id, email, total} = JSON.parse(event.data).payload;
    if (list.querySelector(`[data-order="${id}"]`)) return;
    const item = document.createElement("li");
    item.dataset.order = id;
    item.textContent = `#${id} ${email} ${total}`;
    list.prepend(item);
  });
  events.addEventListener("pgqueue.ready", () => say("live"));
  events.addEventListener("pgqueue.reset", () => location.reload());
  events.onerror = () => say("connecting");
}

// One message, until it has ended.
function followMessage(section) {
  const bar = section.querySelector("progress");
  const events = new EventSource(section.dataset.events);
  const show = (event) => {
    const {status, progress, result} = JSON.parse(event.data);
    if (progress?.total) [bar.max, bar.value] = [progress.total, progress.done];
    section.querySelector("output").textContent = result ?? progress?.text ?? status;
    const approve = section.querySelector("[data-approve]");
    if (approve) approve.hidden = !(approve.href = progress?.approve ?? "");
    const item = document.createElement("li");
    item.textContent = event.type;
    section.querySelector("ol").append(item);
    if (event.type === "ended") events.close();
  };
  for (const name of ["waiting", "started", "progress", "retried", "ended"]) {
    events.addEventListener(name, show);
  }
}

document.querySelectorAll("#orders").forEach(followOrders);
document.querySelectorAll("#message").forEach(followMessage);
