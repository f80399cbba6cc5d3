// The start page as a tab, and Validate with a dialog that leads to each open exercise.
//
// A federated extension written by hand: JupyterLab calls `init` with the modules that it shares and `get` with "./extension".
// It needs no build. What it uses of JupyterLab is public: docRegistry, commands, Dialog, ToolbarButton, Widget.
// What it says is English, or what the server put into the page's settings of it: a catalogue, `say`'s text to another one.
"use strict";
(() => {
  const OPEN = "across:start";
  const MARKS = { passes: "✓", open: "○", "not yet": "✗", "by hand": "✎", pending: "·", prepared: "…", tried: "…" };
  const UNKNOWN = ["pending", "prepared", "tried"];
  const SOON = 500; // milliseconds after which one that waits for Validate sees what it does
  let shared;

  async function module(name) {
    const versions = Object.values(shared[name]);
    return (await (versions.find((each) => each.loaded) || versions[0]).get())();
  }

  function plugins({ widgets, apputils, services, coreutils, icons }) {
    const icon = icons.homeIcon || icons.listIcon;
    const settings = services.ServerConnection.makeSettings();
    const words = JSON.parse(coreutils.PageConfig.getOption("acrossWords") || "{}");
    const say = (text, ...values) => (words[text] || text).replace(/\{(\d)\}/g, (_, place) => values[place]);
    const url = (path) => coreutils.URLExt.join(settings.baseUrl, path);
    const ask = (path, init = {}) => services.ServerConnection.makeRequest(url(path), init, settings);

    function element(tag, properties = {}, ...children) {
      const made = Object.assign(document.createElement(tag), properties);
      made.append(...children);
      return made;
    }

    // Bring the reader to the cell with that grade id, and select it.
    async function go(panel, cell) {
      await panel.revealed;
      const at = panel.content.widgets.findIndex((each) => (each.model.getMetadata("nbgrader") || {}).grade_id === cell);
      if (at < 0) return;
      panel.content.activeCellIndex = at;
      panel.content.mode = "command";
      await panel.content.scrollToItem(at, "center");
      panel.content.node.focus();
    }

    // ---- the start page ----

    class Start extends widgets.Widget {
      constructor(app) {
        super({ node: element("div", { tabIndex: 0 }) });
        this.app = app;
        this.node.style.overflow = "auto";
        this.node.style.background = "var(--jp-layout-color1)";
        this.node.setAttribute("aria-label", say("Start page"));
        this.node.addEventListener("click", (event) => this.follow(event));
        this.back = () => document.visibilityState === "visible" && this.isVisible && this.show_();
        document.addEventListener("visibilitychange", this.back);
      }
      dispose() {
        document.removeEventListener("visibilitychange", this.back);
        super.dispose();
      }
      onAfterShow() { this.show_(); }
      onAfterAttach() { if (this.isVisible) this.show_(); }
      onActivateRequest() { this.node.focus(); }

      async show_() {
        let text;
        try {
          const response = await ask("across/start?part=1");
          text = await response.text();
          if (!response.ok) throw new Error(text);
        } catch (error) {
          this.node.textContent = say("The start page could not be made: {0}", error.message);
          return;
        }
        if (this.isDisposed) return;
        const focused = this.node.contains(document.activeElement) && document.activeElement.getAttribute("href");
        const top = this.node.scrollTop;
        if (text !== this.text) this.node.innerHTML = this.text = text; // our own server's, escaped
        this.node.scrollTop = top;
        if (focused) this.node.querySelector(`.across-start a[href="${CSS.escape(focused)}"]`)?.focus();
        clearTimeout(this.timer);
        if (this.isVisible && this.node.querySelector("[data-looking]")) this.timer = setTimeout(() => this.show_(), 2000);
      }

      async follow(event) {
        const link = event.target.closest("a[data-path]");
        if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        const panel = await this.app.commands.execute("docmanager:open", { path: link.dataset.path });
        if (!panel || !panel.context) return;
        await panel.context.ready;
        if (link.dataset.cell) await go(panel, link.dataset.cell);
      }
    }

    const start = {
      id: "across:start-page",
      autoStart: true,
      activate: (app) => {
        let tab;
        app.commands.addCommand(OPEN, {
          label: say("Start page"),
          icon,
          caption: say("The chapters, your progress, and the next step"),
          execute: () => {
            if (!tab || tab.isDisposed) {
              tab = new apputils.MainAreaWidget({ content: new Start(app) });
              tab.id = "across-start";
              tab.title.label = say("Start here");
              tab.title.icon = icon;
              tab.title.closable = true;
            }
            if (!tab.isAttached) app.shell.add(tab, "main", { rank: 0 });
            app.shell.activateById(tab.id);
          },
        });
        const document_ = new URL(window.location.href).pathname.includes("/tree/"); // one was asked for by its address
        app.restored.then(() => document_ || app.commands.execute(OPEN));
      },
    };

    // ---- Validate ----

    function line(each, leave) {
      const link = element("a", { href: "#", textContent: each.title });
      link.dataset.cell = each.cell;
      link.addEventListener("click", (event) => { event.preventDefault(); leave(each.cell); });
      const head = element("div", {}, `${MARKS[each.state]} `, link);
      const item = element("li", {}, head);
      if (each.says) item.append(element("pre", { textContent: each.says }));
      return item;
    }

    function list(title, items) {
      return items.length ? [element("h3", { textContent: title }), element("ul", {}, ...items)] : [];
    }

    function body(said, leave) {
      const node = element("div", { className: "across-validation" });
      node.append(element("style", { textContent: STYLE }));
      if (said.fault) {
        node.append(element("p", { textContent: say("The notebook could not be validated:") }), element("pre", { textContent: said.fault }));
        return node;
      }
      const left = said.exercises.filter((each) => each.state === "open" || each.state === "not yet");
      const changed = said.exercises.filter((each) => each.state === "passes" && each.says);
      const by_hand = said.exercises.filter((each) => each.state === "by hand");
      node.append(element("p", { textContent: said.says }));
      node.append(
        ...list(said.headings.open, left.map((each) => line(each, leave))),
        ...list(said.headings.changed, changed.map((each) => line(each, leave))),
        ...list(said.headings.by_hand, by_hand.map((each) => line(each, leave))),
        ...list(said.headings.not_released, said.changed.map((sentence) => element("li", {}, sentence))),
        element("p", { className: "ran", textContent: said.ran }),
      );
      return node;
    }

    // What Validate does while it does it, over the notebook's upper right corner: nothing moves, and one may go on working.
    function underWay(panel, stop) {
      const style = element("style", { textContent: STYLE });
      const now = element("p", { className: "now" });
      now.setAttribute("role", "status"); // read aloud as it changes; what counts seconds is not
      const seconds = element("p", { className: "seconds" }), says = element("p"), checks = element("ul");
      const button = element("button", { className: "jp-Dialog-button jp-mod-styled jp-mod-reject", textContent: say("Stop") });
      button.addEventListener("click", stop);
      const node = element("div", { className: "across-validation across-under-way" }, style, now, seconds, says, checks, button);
      node.setAttribute("role", "region");
      node.setAttribute("aria-label", say("Validate"));
      const put = (place, text) => { if (place.textContent !== text) place.textContent = text; };
      return {
        show(said) {
          put(now, said.now);
          put(seconds, said.seconds);
          put(says, said.says);
          const shown = JSON.stringify(said.exercises.map((each) => [each.state, each.says]));
          if (shown !== this.shown) { // a link that has the focus is the same link afterwards
            const focused = checks.contains(document.activeElement) && document.activeElement.dataset.cell;
            checks.replaceChildren(...said.exercises.map((each) => line(each, (cell) => go(panel, cell))));
            if (focused) checks.querySelector(`a[data-cell="${CSS.escape(focused)}"]`)?.focus();
          }
          this.shown = shown;
          if (node.parentNode) return;
          panel.node.append(node);
          node.style.top = `${panel.toolbar.node.offsetTop + panel.toolbar.node.offsetHeight + 4}px`;
        },
        remove() { node.remove(); },
      };
    }

    const STYLE = `
      .across-under-way { position: absolute; right: 20px; z-index: 100; width: 24rem; max-width: 80%; max-height: 70%; overflow: auto;
        box-sizing: border-box; padding: 0.6em 1em; font-size: var(--jp-ui-font-size1); color: var(--jp-ui-font-color1);
        background: var(--jp-layout-color1); border: 1px solid var(--jp-border-color1); box-shadow: var(--jp-elevation-z6); }
      .across-under-way p { margin: 0 0 0.2em; }
      .across-under-way .now { font-weight: 600; }
      .across-under-way .seconds { min-height: 1.3em; }
      .across-under-way ul { padding: 0.4em 0; }
      .across-validation.across-under-way li { margin: 0 0 0.25em; }
      .across-validation { max-width: 46rem; }
      .across-validation h3 { font-size: var(--jp-ui-font-size2); margin: 0.8em 0 0.3em; }
      .across-validation ul { list-style: none; margin: 0; padding: 0; }
      .across-validation li { margin: 0 0 0.6em; }
      .across-validation a { color: var(--jp-content-link-color); text-decoration: underline; }
      .across-validation a:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
      .across-validation pre { margin: 0.1em 0 0 1.3em; white-space: pre-wrap; color: var(--jp-ui-font-color1); }
      .across-validation .ran { color: var(--jp-ui-font-color1); }`;

    // a folded cell with a long first line would make the whole notebook wider than its window
    const FOLDED = ".jp-Notebook .jp-Placeholder-content { min-width: 0; } .jp-Notebook .jp-InputPlaceholder { overflow: hidden; }";

    async function show(panel, said, again) {
      let dialog, target;
      const leave = (cell) => { target = cell; dialog.reject(); };
      const node = body(said, leave);
      const buttons = [apputils.Dialog.okButton({ label: say("OK") })];
      const all = say("Run all again");
      if (said.kept) buttons.unshift(apputils.Dialog.cancelButton({ label: all }));
      dialog = new apputils.Dialog({ title: say("Validation Results"), body: new widgets.Widget({ node }), buttons,
        defaultButton: buttons.length - 1, focusNodeSelector: ".across-validation a" });
      const enter = (event) => { // the dialog takes Enter for its default button, also on a link
        const link = document.activeElement && document.activeElement.closest(".across-validation a");
        if (event.key !== "Enter" || !link) return;
        event.preventDefault();
        event.stopImmediatePropagation();
        link.click();
      };
      window.addEventListener("keydown", enter, true);
      const result = await dialog.launch();
      window.removeEventListener("keydown", enter, true);
      if (target) await go(panel, target);
      else if (result.button.label === all) again();
      else panel.content.node.focus();
    }

    async function validate(panel, button, anew = false) {
      const label = (text) => { const place = button.node.querySelector(".jp-ToolbarButtonComponent-label"); if (place) place.textContent = text; };
      if (button.busy) return;
      button.busy = true;
      label(say("Saving …"));
      let said, timer;
      const path = panel.context.path, place = `across/validate?path=${encodeURIComponent(path)}`;
      const view = underWay(panel, () => ask(place, { method: "DELETE" }));
      const look = async () => {
        const now = await (await ask(place)).json();
        if (said || !now.exercises) return;
        const done = now.exercises.filter((each) => !UNKNOWN.includes(each.state)).length;
        label(now.says ? say("Validating {0} of {1}", done, now.exercises.length) : say("Validating …"));
        view.show(now);
      };
      try {
        for (let tries = 0; button.saving && tries < 200; tries++) await new Promise((done) => setTimeout(done, 50));
        if (panel.context.model.dirty) await panel.context.save(); // beside another one, JupyterLab takes it for somebody else's
        label(say("Validating …"));
        timer = setInterval(() => look().catch(() => {}), SOON);
        const response = await ask("across/validate", { method: "POST", body: JSON.stringify({ path, anew }) });
        said = await response.json();
        if (!response.ok) said = { fault: said.message };
      } catch (error) {
        said = { fault: error.message };
      }
      clearInterval(timer);
      view.remove();
      button.busy = false;
      label(say("Validate"));
      await show(panel, said, () => validate(panel, button, true));
    }

    const validating = {
      id: "across:validate",
      autoStart: true,
      activate: (app) => {
        document.head.append(element("style", { textContent: FOLDED }));
        app.docRegistry.addWidgetExtension("Notebook", {
          createNew: (panel) => {
            const button = new apputils.ToolbarButton({
              className: "across-validate",
              label: say("Validate"),
              tooltip: say("Run what the checks need in a fresh kernel, and list each open exercise"),
              onClick: () => validate(panel, button),
            });
            panel.context.saveState.connect((_, state) => { button.saving = state === "started"; });
            const home = new apputils.ToolbarButton({
              className: "across-home",
              label: say("Start page"),
              tooltip: say("The chapters, your progress, and the next step"),
              onClick: async () => { // it tells of the notebook as it is saved
                if (panel.context.model.dirty && panel.context.contentsModel?.writable) await panel.context.save().catch(() => {});
                app.commands.execute(OPEN);
              },
            });
            panel.toolbar.insertItem(0, "across-start", home);
            panel.toolbar.insertItem(1, "across-validate", button);
            return button;
          },
        });
      },
    };

    return { say, made: [start, validating] };
  }

  async function extension() {
    const names = { widgets: "@lumino/widgets", apputils: "@jupyterlab/apputils", services: "@jupyterlab/services", coreutils: "@jupyterlab/coreutils", icons: "@jupyterlab/ui-components" };
    const found = {};
    for (const [key, name] of Object.entries(names)) found[key] = await module(name);
    const { say, made } = plugins(found);
    const optional = async (name) => { try { return await module(name); } catch { return {}; } };
    // the ways to the start page besides: a card of the launcher, and the palette
    const { ILauncher } = await optional("@jupyterlab/launcher");
    made.push({
      id: "across:ways",
      autoStart: true,
      optional: [found.apputils.ICommandPalette, ILauncher].filter(Boolean),
      activate: (app, palette, launcher) => {
        palette?.addItem({ command: OPEN, category: say("Course") });
        launcher?.add({ command: OPEN, category: "Other", rank: 0 });
      },
    });
    return made;
  }

  const scope = (window._JUPYTERLAB = window._JUPYTERLAB || {});
  scope.across = {
    init: (modules) => { shared = modules; },
    get: async () => { const made = await extension(); return () => ({ __esModule: true, default: made }); },
  };
})();
