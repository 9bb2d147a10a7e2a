// Take over what changes on the page of a flow while it is open, by asking every few seconds until the flow
// has ended. Without this file the page reloads itself.
"use strict";
(() => {
  const live = JSON.parse(document.getElementById("pgqueue-flow-data").textContent);

  function took(told) {
    pgqueueLive.take(told.sections);
    return told.is_over;
  }

  // A large flow takes the database longer: it is asked for less often.
  pgqueueLive.speak(live.words);
  pgqueueLive.poll(live.url, took, 20);
})();
