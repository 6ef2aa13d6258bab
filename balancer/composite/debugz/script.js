"use strict";
// Keeps the page up to date: fetches it again and changes what has changed, so that
// the reader's place, focus and open parts stay.
(() => {
  const period = 1000;
  const main = document.querySelector("main");
  const state = document.getElementById("live");
  const news = document.getElementById("news");
  const button = document.getElementById("pause");
  let paused = false, timer, failures = 0;

  const key = (node) => (node.nodeType === Node.ELEMENT_NODE && node.id) || "";

  // alike tells whether a node can become the other one.
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && key(a) === key(b);

  const setAttributes = (from, to) => {
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && name !== "open") from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (from.getAttribute(name) !== value && name !== "open") from.setAttribute(name, value);
    }
  };

  const become = (from, to) => {
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    setAttributes(from, to);
    let at = from.firstChild;
    for (const want of [...to.childNodes]) {
      let found = at;
      if (key(want)) {
        while (found && key(found) !== key(want)) found = found.nextSibling;
      }
      if (found && alike(found, want)) {
        // What stands before it is gone.
        while (at !== found) { const next = at.nextSibling; at.remove(); at = next; }
        at = found.nextSibling;
        become(found, want);
      } else if (at && !key(want) && !key(at)) {
        const next = at.nextSibling;
        at.replaceWith(document.importNode(want, true));
        at = next;
      } else {
        from.insertBefore(document.importNode(want, true), at);
      }
    }
    while (at) { const next = at.nextSibling; at.remove(); at = next; }
  };

  // conditions are what is worth being told: how each cluster is.
  const conditions = () => new Map(
    [...main.querySelectorAll("[data-cluster]")].map((e) => [e.id, e.dataset.cluster + ": " + e.dataset.status]));

  const show = (text, tone) => {
    if (state.textContent !== text) state.textContent = text;
    state.className = tone;
  };

  const refresh = async () => {
    try {
      const answer = await fetch(location.href, { cache: "no-store", redirect: "error" });
      if (!answer.ok) throw new Error(String(answer.status));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("main");
      if (!fresh || fresh.dataset.build !== main.dataset.build) {
        location.reload(); // the program is another version
        return;
      }
      const before = conditions();
      become(main, fresh);
      const changes = [...conditions()].filter(([id, text]) => before.has(id) && before.get(id) !== text);
      if (changes.length) news.textContent = changes.map(([, text]) => text).join("; ");
      failures = 0;
      if (!paused) show("Live", "good");
    } catch {
      failures++;
      if (!paused) show("No answer from the program; trying again", "bad");
    }
  };

  const next = () => {
    clearTimeout(timer);
    if (paused || document.hidden) return;
    timer = setTimeout(async () => { await refresh(); next(); }, period * Math.min(1 + failures, 10));
  };

  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume" : "Pause";
    show(paused ? "Paused" : "Live", paused ? "resting" : "good");
    next();
  });
  document.addEventListener("visibilitychange", next);
  button.hidden = false;
  show("Live", "good");
  next();
})();
