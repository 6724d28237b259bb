// The page's script. Every page can be read and acted on without it; it keeps the
// page alive, adds keys, and lets a slider replay a thread. It asks nobody but the
// server that it came from, and makes markup only of pages that this server wrote.
(() => {
  "use strict";

  const find = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const body = document.body, main = find("#main"), said = find("#said"), live = find("#live");
  const frozen = "frozen" in body.dataset; // a refusal stands here, with what was typed
  let position = Number(body.dataset.end);
  let skew = Date.parse(body.dataset.now) - Date.now(); // the server's clock against this one

  // ---- Becoming the page as the server has it now, node by node: what stays the
  // same stays the same node, with its focus, its selection, and what is typed in it.

  const kept = (node, name) => name === "open" && node.localName === "details" || name === "hidden" && node.id === "range" ||
    name === "value" && node.localName === "input" && node.type !== "range";

  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName &&
    (a.nodeType !== Node.ELEMENT_NODE || !a.id && a.classList[0] === b.classList[0]);

  function become(from, to) {
    if (from.isEqualNode(to)) return;
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    // A form that is being filled in keeps what it carries, its command included.
    if (from.localName === "form" && from.hasAttribute("data-touched") && !find("#range", from)) return;
    for (const { name, value } of [...to.attributes]) {
      if (from.getAttribute(name) !== value && !kept(from, name)) from.setAttribute(name, value);
    }
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && !kept(from, name) && name !== "data-touched") from.removeAttribute(name);
    }
    if (from.localName === "textarea" || from.localName === "select") return;
    if (from.localName === "input") {
      if (from.type === "hidden") from.value = to.getAttribute("value");
      if (from !== document.activeElement && (from.type === "range" || from.type === "number")) from.value = to.getAttribute("value");
      return;
    }
    const wanted = new Set([...to.children].filter((c) => c.id).map((c) => c.localName + "#" + c.id));
    const byId = new Map();
    for (const c of [...from.children]) {
      if (!c.id) continue;
      if (wanted.has(c.localName + "#" + c.id)) byId.set(c.id, c); else c.remove();
    }
    let at = from.firstChild;
    for (const next of [...to.childNodes]) {
      let same = null;
      if (next.id) {
        same = byId.get(next.id) || null;
      } else {
        same = at;
        while (same && !alike(same, next)) same = next.nodeType === Node.ELEMENT_NODE ? same.nextSibling : null;
        while (same && at !== same) { // what stood before it is gone, but for what has its own name
          const gone = at;
          at = at.nextSibling;
          if (!gone.id) gone.remove();
        }
      }
      if (!same) {
        const made = document.importNode(next, true);
        from.insertBefore(made, at);
        if (made.nodeType === Node.ELEMENT_NODE && made.matches(".row, .entry")) came.push(made);
        continue;
      }
      if (same === at) at = at.nextSibling; else from.insertBefore(same, at);
      become(same, next);
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  let came = []; // rows and entries that are new to the page

  function show(page) {
    const focused = document.activeElement;
    came = [];
    document.title = page.title;
    for (const part of ["#pages", ".theme", "#main"]) {
      const here = find(part), there = find(part, page);
      if (here && there) become(here, there);
    }
    const theme = page.documentElement.dataset.theme;
    if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme;
    find('meta[name="color-scheme"]').content = find('meta[name="color-scheme"]', page).content;
    body.dataset.end = page.body.dataset.end;
    skew = Date.parse(page.body.dataset.now) - Date.now();
    if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
    wake();
  }

  // ---- Asking for the page again.

  let asking = null;

  async function ask(address) {
    if (asking) asking.abort();
    const mine = asking = new AbortController();
    try {
      const answer = await fetch(address, { headers: { "Decklog-Part": "main" }, signal: mine.signal, cache: "no-store", credentials: "same-origin" });
      if (answer.status === 401) { over(); return false; }
      if (!answer.ok) return false;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (mine.signal.aborted || !find("#main", page)) return false;
      show(page);
      return true;
    } catch (e) {
      return false; // the stream says when the server is there again
    } finally {
      if (asking === mine) asking = null;
    }
  }

  const address = () => location.pathname + location.search;
  let due = null, pulling = false;

  function pull() {
    if (due || frozen) return;
    due = setTimeout(async () => {
      due = null;
      if (pulling || asking) { pull(); return; } // or somebody scrubs
      pulling = true;
      const ok = await ask(address());
      pulling = false;
      if (ok && came.length) tell();
    }, 60);
  }

  function tell() {
    for (const node of came) node.classList.add("fresh");
    const entries = came.filter((n) => n.matches(".entry")).length, rows = came.length - entries;
    const words = [];
    if (entries) words.push(entries === 1 ? "1 new entry in this thread" : `${entries} new entries in this thread`);
    if (rows) words.push(rows === 1 ? "1 new line" : `${rows} new lines`);
    said.textContent = words.join(", ");
  }

  // ---- The stream that says that something has changed.

  const beat = Number(body.dataset.beat || 15000);
  let stream = null, heard = Date.now(), tries = 0, again = null, closed = false, lost = 0;

  function state(name, words) {
    if (!live || live.dataset.state === name && live.lastElementChild.textContent === words) return;
    live.dataset.state = name;
    live.lastElementChild.textContent = words;
  }

  function alive() {
    heard = Date.now();
    tries = lost = 0;
    state("live", "live");
  }

  function connect() {
    clearTimeout(again);
    again = null;
    if (closed || !body.dataset.live) return;
    if (stream) stream.close();
    stream = new EventSource(`${body.dataset.live}?after=${position}`);
    const mine = stream;
    stream.addEventListener("here", alive);
    stream.addEventListener("beat", alive);
    stream.addEventListener("over", over);
    stream.addEventListener("change", (e) => {
      alive();
      const news = JSON.parse(e.data);
      position = Math.max(position, news.position);
      const thread = find("[data-thread]", main);
      if (!thread || news.more || news.threads.includes(thread.dataset.thread)) pull();
    });
    stream.onerror = () => {
      if (mine !== stream) return;
      if (!lost) lost = Date.now();
      state("reconnecting", "reconnecting");
      if (stream.readyState === EventSource.CLOSED) later();
    };
  }

  function later() {
    if (again || closed) return;
    const wait = Math.min(30000, 500 * 2 ** tries++) * (0.75 + Math.random() / 2);
    again = setTimeout(connect, wait);
  }

  function over() {
    closed = true;
    if (stream) stream.close();
    stream = null;
    state("stale", "logged out");
  }

  function watch() {
    if (closed || !body.dataset.live || document.hidden) return;
    const silent = Date.now() - heard;
    if (silent > 3 * beat && !again) {
      if (!lost) lost = heard;
      later();
    }
    if (lost && Date.now() - lost > 2 * beat) state("stale", `stale for ${ago(Date.now() - lost)}`);
  }

  // A tab that nobody sees gives its connection up: a browser has few for one site.
  let hiding = null;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(() => {
        if (stream) stream.close();
        stream = null;
        state("still", "paused");
      }, 20000);
    } else if (!stream) {
      heard = Date.now();
      connect();
    }
  });
  addEventListener("pagehide", () => { if (stream) stream.close(); stream = null; });
  addEventListener("pageshow", (e) => {
    for (const form of all("form[data-sent]")) form.removeAttribute("data-sent");
    if (e.persisted) { connect(); pull(); }
  });

  // ---- Ages grow while one looks.

  function ago(ms) {
    const s = Math.floor(ms / 1000), m = Math.floor(s / 60), h = Math.floor(m / 60);
    if (ms < 0) return "ahead";
    if (s < 1) return "now";
    if (m < 1) return `${s}s`;
    if (h < 1) return `${m}m`;
    if (h < 10) return m % 60 ? `${h}h ${m % 60}m` : `${h}h`;
    if (h < 48) return `${h}h`;
    return `${Math.floor(h / 24)}d`;
  }

  function age() {
    if (find(".scrub.is-replay")) return;
    for (const time of all("time[data-age]")) {
      const words = ago(Date.now() + skew - Date.parse(time.dateTime));
      if (time.textContent !== words) time.textContent = words;
    }
  }

  // ---- The scrubber.

  const range = () => find("#range");
  const steps = () => (range().dataset.positions || "").split(" ");

  function wake() { // what the server wrote for a page without a script
    const slider = range();
    if (!slider) return;
    slider.hidden = false;
    if (slider !== document.activeElement || !scrubbing) slider.value = slider.getAttribute("value");
    slider.setAttribute("aria-valuetext", find("#scrub-says span").textContent);
  }

  let scrubbing = 0;

  function replay(index) {
    const at = steps(), base = range().dataset.base;
    index = Math.max(0, Math.min(at.length - 1, index));
    range().value = String(index);
    go(index === at.length - 1 ? base : `${base}?at=${at[index]}`, false);
  }

  async function go(to, push) {
    history[push ? "pushState" : "replaceState"](null, "", to);
    scrubbing++;
    const ok = await ask(to);
    scrubbing--;
    if (!ok) return;
    const last = all(".entry", main).pop();
    if (find(".scrub.is-replay") && last) last.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("input", (e) => {
    if (e.target.id === "range") replay(Number(e.target.value));
    else if (e.target.form) e.target.form.setAttribute("data-touched", "");
  });

  document.addEventListener("click", (e) => {
    if (e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    const link = e.target.closest && e.target.closest(".scrub a, a.at, a.pos");
    if (link && range() && !frozen) {
      e.preventDefault();
      go(link.getAttribute("href"), true);
    }
    const menu = find(".me[open]");
    if (menu && !menu.contains(e.target)) menu.open = false;
  });
  addEventListener("popstate", () => { ask(address()); });

  // ---- Forms: one that was sent is not sent again, and the theme needs no new page.

  document.addEventListener("submit", (e) => {
    const form = e.target;
    if (form.matches(".theme")) {
      e.preventDefault();
      fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form, e.submitter)), redirect: "manual", credentials: "same-origin" })
        .then(() => frozen ? location.assign(form.elements.back.value) : ask(address()));
      return;
    }
    if (form.method !== "post") return;
    if ("sent" in form.dataset) e.preventDefault();
    form.dataset.sent = "";
  });

  // ---- Keys.

  const items = () => all(".go, .entry > .at", main).filter((n) => n.offsetParent !== null);

  function move(by) {
    const list = items();
    if (!list.length) return;
    const here = list.findIndex((n) => n === document.activeElement || n.closest(".row, .entry").contains(document.activeElement));
    const next = list[Math.max(0, Math.min(list.length - 1, here < 0 ? 0 : here + by))];
    next.focus({ preventScroll: true });
    next.closest(".row, .entry").scrollIntoView({ block: "nearest" });
  }

  async function help() {
    let box = find("dialog");
    if (!box) {
      const answer = await fetch("/keys", { credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const table = find(".keys", page);
      if (!table) return;
      box = document.createElement("dialog");
      box.setAttribute("aria-label", "Keys");
      box.append(document.importNode(table, true));
      body.append(box);
      box.addEventListener("click", (e) => { if (e.target === box) box.close(); });
    }
    if (!box.open) box.showModal();
  }

  let pressed = "", pressedAt = 0;
  document.addEventListener("keydown", (e) => {
    const at = e.target;
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && at.matches("textarea")) {
      at.form.requestSubmit();
      return;
    }
    if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing) return;
    if (e.key === "Escape") {
      const menu = find(".me[open]");
      if (menu) menu.open = false;
      if (at.matches("input, textarea, select")) at.blur();
      return;
    }
    if (find("dialog[open]") || at.matches("textarea, select, input:not([type=range], [type=checkbox], [type=radio])")) return;
    const after = pressed === "g" && Date.now() - pressedAt < 1500;
    pressed = e.key;
    pressedAt = Date.now();
    if (after) {
      const link = all("[data-go]").find((n) => n.dataset.go === e.key);
      if (link) { e.preventDefault(); link.click(); return; }
    }
    const onItem = at.matches(".go, .entry > .at");
    switch (e.key) {
      case "j": move(1); break;
      case "k": move(-1); break;
      case "ArrowDown": if (!onItem) return; move(1); break;
      case "ArrowUp": if (!onItem) return; move(-1); break;
      case "/": { const f = find("[data-filter]"); if (!f) return; f.focus(); f.select(); break; }
      case "?": help(); break;
      case "[": if (!range()) return; replay(Number(range().value) - 1); break;
      case "]": if (!range()) return; replay(Number(range().value) + 1); break;
      case "n": { const now = find("#now"); if (!now) return; go(now.getAttribute("href"), true); break; }
      case "w": { const field = find("[data-writing]"), link = find("[data-write]"); if (field) field.focus(); else if (link) link.click(); else return; break; }
      default: return;
    }
    e.preventDefault();
  });

  // ---- Begin.

  const here = new URL(location.href);
  if (here.searchParams.has("did")) {
    here.searchParams.delete("did");
    history.replaceState(null, "", here);
  }
  wake();
  if (frozen) { // what was refused is the first that is seen, and heard
    const why = find(".trouble", main);
    if (why) {
      why.focus({ preventScroll: true });
      why.scrollIntoView({ block: "center" });
    }
  }
  connect();
  setInterval(watch, 1000);
  setInterval(age, 5000);
  body.dataset.script = "ready";
})();
