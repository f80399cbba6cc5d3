// The exercises of the notebook, beside it, and Validate: how each stands, its sentence and picture, what runs now, Stop.
//
// A Lumino widget in the right area of the shell, which JupyterLab and Notebook 7 both have, made by lab.js. What it says is the
// server's (`across/exercises`, `across/validate`), so that a reload, another tab and a folder that nobody may write show the same.

const MARKS = { new: "○", begun: "◐", waits: "…", ticked: "✓", passes: "✓", "not yet": "✗", "by hand": "✎", pending: "·", prepared: "…", tried: "…" };
const SOON = 500; // milliseconds after which one that waits for Validate sees what it does
const PAUSE = 800; // without a change of the notebook, after which its exercises are looked at
const WIDE = 1200, NARROW = 760; // pixels of a window: from here on the panel opens by itself; below this it and the notebook take turns

const STYLE = `
  .across-exercises { box-sizing: border-box; height: 100%; overflow: auto; padding: 10px 14px; font-size: var(--jp-ui-font-size1);
    line-height: 1.45; color: var(--jp-ui-font-color1); background: var(--jp-layout-color1); overflow-wrap: anywhere; }
  .across-exercises .now a { font-family: var(--jp-code-font-family); font-size: var(--jp-code-font-size); }
  .across-exercises h2 { font-size: var(--jp-ui-font-size2); margin: 0 0 2px; }
  .across-exercises p { margin: 0 0 4px; }
  .across-exercises code { font-family: var(--jp-code-font-family); font-size: var(--jp-code-font-size); color: inherit; background: none; }
  .across-exercises .bar { display: flex; gap: 3px; height: 5px; margin: 8px 0; }
  .across-exercises .bar span { flex: 1; border-radius: 2px; background: var(--jp-border-color1); }
  .across-exercises .bar [data-state="passes"], .across-exercises .bar [data-state="ticked"] { background: var(--jp-success-color1); }
  .across-exercises .bar [data-state="ticked"] { opacity: 0.55; }
  .across-exercises .bar [data-state="not yet"] { background: var(--jp-warn-color1); }
  .across-exercises .buttons { display: flex; flex-wrap: wrap; gap: 6px; margin: 8px 0; }
  .across-exercises button { font: inherit; color: inherit; padding: 3px 10px; border: 1px solid var(--jp-ui-font-color2); border-radius: 3px;
    background: var(--jp-layout-color1); cursor: pointer; }
  .across-exercises button:hover { background: var(--jp-layout-color2); }
  .across-exercises button[aria-disabled="true"] { cursor: default; border-style: dashed; }
  .across-exercises .now { margin: 6px 0; padding: 6px 10px; border-left: 3px solid var(--jp-brand-color1); background: var(--jp-layout-color2); }
  .across-exercises [role="status"] { font-weight: 600; }
  .across-exercises .told { margin: 8px 0; }
  .across-exercises ul { list-style: none; margin: 8px 0 0; padding: 0; }
  .across-exercises li { margin: 0; padding: 7px 0; border-top: 1px solid var(--jp-border-color2); }
  .across-exercises .head { display: grid; grid-template-columns: 1.3em 1fr auto; column-gap: 4px; }
  .across-exercises .state { grid-column: 2 / span 2; }
  .across-exercises .sentence, .across-exercises details { margin: 2px 0 0 calc(1.3em + 4px); }
  .across-exercises .sentence { white-space: pre-wrap; }
  .across-exercises a { color: var(--jp-content-link-color); text-decoration: underline; }
  .across-exercises summary { cursor: pointer; }
  .across-exercises a:focus-visible, .across-exercises button:focus-visible, .across-exercises summary:focus-visible,
  .across-exercises:focus-visible { outline: 2px solid currentColor; outline-offset: 1px; }
  .across-exercises img { display: block; max-width: 100%; margin: 4px 0; }
  .across-exercises [hidden] { display: none; }
  @media (max-width: ${NARROW - 1}px) {
    #jp-right-stack > .across-exercises { min-width: calc(100vw - 90px); } /* but for the tabs at the edges */
    #jp-right-stack:has(> * > .across-exercises) { min-width: calc(100vw - 2px); } } /* Notebook 7, which has none */`;

export function exercises({ widgets, icons, app, tracker, say, ask, url, element, go }) {
  const WORDS = { new: say("not begun"), begun: say("not checked yet"), waits: say("waits for another exercise"), ticked: say("ticked here"),
    passes: say("passes"), "not yet": say("does not pass yet"), "by hand": say("read by a person"), pending: say("to be tried"),
    prepared: say("being prepared"), tried: say("being tried") };
  const known = new WeakMap(); // of each notebook: what its panel shows

  const put = (place, text) => { if (place.textContent !== text) place.textContent = text; };

  // Text whose `code` is shown as such. No other mark of Markdown means anything: a student's 2 * 3 * 4 stays what it is.
  function prose(place, text) {
    if (place.dataset.text === text) return;
    place.dataset.text = text;
    place.replaceChildren(...text.split(/`([^`\n]+)`/).map((part, number) => (number % 2 ? element("code", { textContent: part }) : part)));
  }

  // A notebook without what its cells gave; `graded`: of its cells only answers and checks.
  function content(panel, graded) {
    const notebook = panel.context.model.toJSON();
    const cells = notebook.cells.filter((cell) => !graded || cell.metadata.nbgrader);
    return { ...notebook, cells: cells.map((cell) => (cell.cell_type === "code" ? { ...cell, outputs: [], execution_count: null } : cell)) };
  }

  function title(panel) {
    const first = Array.from(panel.context.model.cells).slice(0, 4).map((cell) => cell.sharedModel.getSource().match(/^# +(.+)$/m));
    return (first.find(Boolean) || [0, panel.context.path.split("/").pop()])[1];
  }

  function about(panel) {
    if (!known.has(panel)) known.set(panel, { lines: new Map(), says: "", told: null, now: null, busy: false });
    return known.get(panel);
  }

  class Exercises extends widgets.Widget {
    constructor() {
      super({ node: element("div", { className: "across-exercises", tabIndex: -1 }) });
      this.id = "across-exercises";
      this.title.icon = icons.checkIcon || icons.listIcon;
      this.title.caption = say("Exercises");
      this.node.setAttribute("role", "region");
      this.node.setAttribute("aria-label", say("Exercises"));
      const part = (tag, properties) => element(tag, properties);
      this.heading = part("h2");
      this.status = part("p"); // read aloud as it changes; what counts seconds is not
      this.status.setAttribute("role", "status");
      this.bar = part("div", { className: "bar", ariaHidden: "true" });
      this.again = part("button", { textContent: say("Run all again") });
      this.validate = part("button", { textContent: say("Validate") });
      this.seconds = part("p");
      this.line = part("a", { href: "#" });
      this.stop = part("button", { textContent: say("Stop") });
      this.known = part("p");
      this.way = part("div", { className: "now" });
      this.way.append(this.line, this.seconds, this.known, this.stop);
      this.told = part("div", { className: "told" });
      this.list = part("ul");
      this.list.setAttribute("role", "list");
      this.items = new Map();
      const buttons = element("div", { className: "buttons" }, this.validate, this.again);
      this.node.append(element("style", { textContent: STYLE }), this.heading, this.status, this.way, this.bar, buttons, this.told, this.list);
      this.validate.addEventListener("click", () => validate(this.notebook));
      this.again.addEventListener("click", () => validate(this.notebook, true));
      this.stop.addEventListener("click", () => ask(place(this.notebook), { method: "DELETE" }));
      this.line.addEventListener("click", (event) => { event.preventDefault(); this.lead(this.line.dataset.cell); });
      this.changed = () => { clearTimeout(this.pause); this.pause = setTimeout(() => this.look(), PAUSE); };
      this.back = () => document.visibilityState === "visible" && this.look();
      document.addEventListener("visibilitychange", this.back);
      window.matchMedia(`(max-width: ${NARROW - 1}px)`).addEventListener("change", () => { this.narrow(); this.parent?.fit(); });
      tracker.currentChanged.connect(() => this.turn());
      this.turn();
    }
    onAfterShow() {
      this.narrow();
      this.look();
    }
    narrow() { if (window.innerWidth < NARROW && this.notebook) app.shell.collapseLeft?.(); }
    onActivateRequest() { if (!this.quiet) (this.list.querySelector("a") || this.node).focus(); this.quiet = false; }

    // Show the panel without taking the focus from where one works.
    open() {
      if (this.isVisible) return;
      this.quiet = true;
      app.shell.activateById(this.id);
    }

    async turn() {
      const panel = tracker.currentWidget;
      if (panel === this.notebook) return;
      this.notebook?.context.model?.contentChanged.disconnect(this.changed);
      this.notebook = panel;
      this.draw();
      if (!panel) return;
      app.restored.then(() => this.narrow());
      await panel.context.ready;
      if (panel !== this.notebook) return;
      panel.context.model.contentChanged.connect(this.changed);
      if (this.isVisible) return this.look();
      const seen = "across-exercises-seen"; // it opens by itself once; after that it is as it was left
      if (window.innerWidth < WIDE || localStorage.getItem(seen) || !content(panel, true).cells.length) return;
      localStorage.setItem(seen, "yes");
      this.open();
    }

    // Ask how the exercises of a notebook stand; one that nobody sees is not asked for.
    async look(panel = this.notebook) {
      if (!panel?.context.isReady || !this.isVisible) return;
      const its = about(panel), asked = (its.asked = (its.asked || 0) + 1);
      const said = await answer("across/exercises", { path: panel.context.path, notebook: content(panel, true) });
      if (asked !== its.asked || its.busy || !said.exercises) return;
      its.lines = new Map(said.exercises.map((each) => [each.exercise, each]));
      if (its.told && said.says !== its.says) its.told.long = []; // it was of other answers
      Object.assign(its, { says: said.says, saves: said.saves });
      if (said.under_way) watch(panel);
      this.draw();
    }

    lead(cell) {
      if (window.innerWidth < NARROW) app.shell.collapseRight?.();
      return go(this.notebook, cell);
    }

    draw() {
      const panel = this.notebook, its = panel && about(panel);
      const focused = this.way.contains(document.activeElement) || document.activeElement === this.again;
      for (const part of this.node.children) if (part.tagName !== "STYLE") part.hidden = !its && part !== this.status;
      if (!its) return prose(this.status, say("Open a notebook to see its exercises here."));
      const ready = panel.context.isReady;
      prose(this.heading, ready ? title(panel) : "");
      prose(this.status, its.now?.now || its.told?.fault || its.says || (its.asked && !its.lines.size ? say("This notebook has no exercises.") : ""));
      this.validate.setAttribute("aria-disabled", String(Boolean(its.now)));
      this.again.hidden = !its.told?.kept || Boolean(its.now);
      this.way.hidden = !its.now;
      if (focused && (its.now ? this.again.hidden : this.way.hidden)) this.validate.focus();
      put(this.seconds, its.now?.seconds || "");
      put(this.known, its.now?.says || "");
      this.line.hidden = !its.now?.cell;
      this.line.dataset.cell = its.now?.cell || "";
      put(this.line, its.now?.line || "");
      const told = its.now ? [] : its.told?.long || [];
      if (JSON.stringify(told) !== this.told.dataset.told) {
        this.told.dataset.told = JSON.stringify(told);
        this.told.replaceChildren(...told.map((text) => { const made = element("p"); prose(made, text); return made; }));
      }
      const names = [...its.lines.keys()];
      if (names.join() !== [...this.items.keys()].join() || this.drawn !== panel) {
        this.drawn = panel;
        this.items = new Map(names.map((name) => [name, this.item(name)]));
        this.list.replaceChildren(...[...this.items.values()].map((each) => each.node));
        this.bar.replaceChildren(...names.map(() => element("span")));
      }
      [...its.lines.values()].forEach((line, number) => {
        this.bar.children[number].dataset.state = line.state;
        this.items.get(line.exercise).update(line);
      });
    }

    // The entry of an exercise in the list: what has the focus in it stays while what it says changes.
    item(name) {
      const mark = element("span", { ariaHidden: "true" }), link = element("a", { href: "#" }, element("code", { textContent: name }));
      const worth = element("span"), state = element("span", { className: "state" }), sentence = element("p", { className: "sentence" });
      const pictures = element("details", {}, element("summary", { textContent: say("Picture of its check") })), drawn = element("div");
      pictures.append(drawn);
      const node = element("li", {}, element("div", { className: "head" }, mark, link, worth, state), sentence, pictures);
      let shown = "";
      const draw = () => {
        if (!pictures.open || drawn.dataset.shown === shown) return;
        drawn.dataset.shown = shown;
        const path = encodeURIComponent(this.notebook.context.path);
        const images = JSON.parse(shown).alts.map((alt, number) => {
          const src = url(`across/exercises?path=${path}&exercise=${encodeURIComponent(name)}&number=${number}&at=${Date.now()}`);
          return element("a", { href: src, target: "_blank" }, element("img", { alt, src })); // in full size
        });
        drawn.replaceChildren(...images);
      };
      pictures.addEventListener("toggle", draw);
      let cell;
      link.addEventListener("click", (event) => { event.preventDefault(); this.lead(cell); });
      return { node, update: (line) => {
        cell = link.dataset.cell = line.cell;
        node.dataset.state = line.state;
        put(mark, MARKS[line.state]);
        put(worth, line.worth);
        put(state, WORDS[line.state]);
        prose(sentence, line.says || "");
        sentence.hidden = !line.says;
        const alts = line.pictures || [];
        pictures.hidden = !alts.length;
        const now = JSON.stringify({ alts, says: line.says, state: line.state });
        if (now === shown) return;
        shown = now;
        if (alts.length && line.state === "not yet") pictures.open = true;
        draw();
      } };
    }
  }

  const place = (panel) => `across/validate?path=${encodeURIComponent(panel.context.path)}`;

  // What the server answers; `fault` where it does not.
  async function answer(path, sent) {
    try {
      const response = await ask(path, sent ? { method: "POST", body: JSON.stringify(sent) } : {});
      const said = await response.json();
      return response.ok ? said : { fault: said.message };
    } catch (error) {
      return { fault: error.message };
    }
  }

  // See how far a validation is, whoever asked for it, until it has ended.
  function watch(panel) {
    const its = about(panel);
    if (its.watching) return;
    let asking = false;
    its.watching = setInterval(async () => {
      if (asking) return;
      asking = true;
      const now = await answer(place(panel));
      asking = false;
      if (now.fault || !its.watching) return;
      if (now.exercises) {
        its.now = now;
        for (const line of now.exercises) its.lines.set(line.exercise, { ...its.lines.get(line.exercise), ...line, pictures: [] });
        labelled(panel, now.says ? say("Validating {0} of {1}", ...now.done) : say("Validating …"));
      } else if (!its.busy) { // another page's
        unwatch(panel);
        side.look();
      }
      side.draw();
    }, SOON);
  }

  function unwatch(panel) {
    const its = about(panel);
    clearInterval(its.watching);
    Object.assign(its, { watching: null, now: null });
    labelled(panel, say("Validate"));
  }

  function labelled(panel, text) {
    const label = panel.toolbar.node.querySelector(".across-validate .jp-ToolbarButtonComponent-label");
    if (label) put(label, text);
  }

  // Save the notebook if that can be; why it could not be, else "".
  async function saved(panel) {
    const context = panel.context;
    for (let tries = 0; about(panel).saving && tries < 200; tries++) await new Promise((done) => setTimeout(done, 50));
    if (!context.model.dirty) return "";
    if (about(panel).saves === false || context.contentsModel?.writable === false)
      return say("This folder cannot be written, so your notebook is not saved: it was validated as it is here. To keep it, use File, Download.");
    try {
      await context.save(); // beside another save, JupyterLab would take it for somebody else's
      return "";
    } catch (error) {
      return say("Your notebook is not saved ({0}): it was validated as it is here.", error.message);
    }
  }

  async function validate(panel, anew = false) {
    const its = panel && about(panel);
    if (!its || its.now) return;
    side.open();
    Object.assign(its, { now: { now: say("Saving …") }, told: null });
    side.draw();
    await panel.context.ready;
    await side.look(panel);
    if (its.watching) return; // it is under way, for another page or for this one before a reload
    its.busy = true;
    const kept = await saved(panel);
    watch(panel);
    const said = await answer("across/validate", { path: panel.context.path, notebook: content(panel, false), anew });
    its.busy = false;
    unwatch(panel);
    if (said.exercises) its.lines = new Map(said.exercises.map((each) => [each.exercise, each]));
    if (said.says) its.says = said.says;
    const fault = said.fault && say("The notebook could not be validated: {0}", said.fault);
    its.told = { kept: said.kept, fault, long: [said.success, kept, ...(said.changed || []), said.ran].filter(Boolean) };
    side.draw();
    if (said.fault) side.look();
  }

  const side = new Exercises();
  app.shell.add(side, "right", { rank: 10 });
  return {
    side,
    validate,
    saving: (panel, state) => { about(panel).saving = state === "started"; },
  };
}
