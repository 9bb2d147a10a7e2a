// Take over the progress and new log lines on the page of a message while it is open, by asking every few seconds. When the message
// has ended, the page reloads itself and shows its end.
"use strict";
(() => {
  const live = JSON.parse(document.getElementById("pgqueue-message-data").textContent);

  function took(told) {
    pgqueueLive.take(told.sections);
    if (told.is_over) location.reload();
    return told.is_over;
  }

  pgqueueLive.speak(live.words);
  pgqueueLive.poll(live.url, took, 20);
})();
