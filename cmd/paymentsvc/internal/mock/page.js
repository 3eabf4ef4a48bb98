"use strict";

// The script fetches the page every two seconds, and replaces the changed rows of the elements with class live. An
// element without rows is replaced as a whole. A row or element with the focus, an open part, typed text or an error
// remains.

const interval = 2000;
const pause = document.getElementById("pause");
const typed = (field) => field.value !== field.defaultValue;
const inUse = (part) =>
  part.contains(document.activeElement) || part.querySelector("details[open], [role=alert]") !== null ||
  [...part.querySelectorAll("input")].some(typed);

function replace(part, fresh) {
  if (!part.isEqualNode(fresh) && !inUse(part)) part.replaceWith(fresh);
}

// mergeRows updates the rows of a list from the fresh page. It never moves a row, because a moved row loses the focus.
function mergeRows(body, fresh) {
  const known = new Map([...body.rows].map((row) => [row.id, row]));
  let next = body.firstElementChild;
  for (const row of [...fresh.rows]) {
    const old = known.get(row.id);
    if (!old) {
      body.insertBefore(row, next);
      continue;
    }
    known.delete(row.id);
    next = old.nextElementSibling;
    replace(old, row);
  }
  for (const row of known.values()) if (!inUse(row)) row.remove();
}

function merge(part, fresh) {
  const body = part.querySelector("tbody"), freshBody = fresh.querySelector("tbody");
  if (!body || !freshBody && !inUse(part)) return replace(part, fresh);
  mergeRows(body, freshBody ?? document.createElement("tbody"));
  for (const selector of ["caption", ":scope > form", ":scope > p"]) {
    const old = part.querySelector(selector), now = fresh.querySelector(selector);
    if (old && now) replace(old, now);
    else if (now) part.append(now);
    else if (old && !inUse(old)) old.remove();
  }
}

async function update() {
  const resp = await fetch(document.querySelector("main").dataset.update);
  if (!resp.ok) return;
  const page = new DOMParser().parseFromString(await resp.text(), "text/html");
  for (const part of document.querySelectorAll(".live")) {
    const fresh = page.getElementById(part.id);
    if (fresh) merge(part, fresh);
  }
}

function tick() {
  if (document.hidden || pause.getAttribute("aria-pressed") === "true") return;
  update().catch(() => {}); // the mock server has stopped, or is starting again
}

pause.hidden = false;
pause.addEventListener("click", () => {
  pause.setAttribute("aria-pressed", String(pause.getAttribute("aria-pressed") !== "true"));
});
setInterval(tick, interval);
