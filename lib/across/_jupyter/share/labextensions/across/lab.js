// The start page as a tab, and the panel of exercises with Validate (exercises.js).
//
// A federated extension written by hand: JupyterLab calls `init` with the modules that it shares and `get` with "./extension".
// It needs no build. What it uses of JupyterLab is public: docRegistry, commands, ToolbarButton, Widget, tokens of its plugins.
// What it says is English, or what the server put into the page's settings of it: a catalogue, `say`'s text to another one.
"use strict";
(() => {
  const OPEN = "across:start";
  const EXERCISES = "across:exercises";
  const HERE = document.currentScript.src;
  let shared;

  async function module(name) {
    const versions = Object.values(shared[name]);
    return (await (versions.find((each) => each.loaded) || versions[0]).get())();
  }

  function plugins({ widgets, apputils, services, coreutils, icons, notebook, application, exercises }) {
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

    // Bring the reader to the cell with that grade id, or that id, and select it.
    async function go(panel, cell) {
      await panel.revealed;
      const graded = panel.content.widgets.findIndex((each) => (each.model.getMetadata("nbgrader") || {}).grade_id === cell);
      const at = graded < 0 ? panel.content.widgets.findIndex((each) => each.model.id === cell) : graded;
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
        const reading = { role: "status", style: "margin: 24px", textContent: say("Your notebooks are being read …") };
        if (!this.text) this.node.replaceChildren(element("p", reading));
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
        app.restored.then(() => {
          if (window.innerWidth < 700) app.shell.collapseLeft?.(); // a phone has room for one thing
          if (!document_) app.commands.execute(OPEN);
        });
      },
    };

    // ---- the panel of exercises, and Validate ----

    // a folded cell with a long first line would make the whole notebook wider than its window
    const FOLDED = ".jp-Notebook .jp-Placeholder-content { min-width: 0; } .jp-Notebook .jp-InputPlaceholder { overflow: hidden; }"
      + " .lm-MenuBar-item { white-space: nowrap; }"; // on a phone a menu's Chinese name would be broken into lines

    const beside = {
      id: "across:exercises",
      autoStart: true,
      requires: [notebook.INotebookTracker, apputils.IToolbarWidgetRegistry],
      optional: [apputils.ICommandPalette, application.ILayoutRestorer],
      activate: (app, tracker, toolbars, palette, restorer) => {
        document.head.append(element("style", { textContent: FOLDED }));
        const { side, validate, saving } = exercises({ widgets, icons, app, tracker, say, ask, url, element, go });
        restorer?.add(side, side.id);
        app.commands.addCommand(EXERCISES, {
          label: say("Exercises"),
          caption: say("How each exercise of this notebook stands"),
          execute: () => app.shell.activateById(side.id),
        });
        palette?.addItem({ command: EXERCISES, category: say("Course") });
        // Where they stand in a notebook's toolbar says schemas/across/exercises.json.
        toolbars.addFactory("Notebook", "across-validate", (panel) => {
          panel.context.saveState.connect((_, state) => saving(panel, state));
          return new apputils.ToolbarButton({
            className: "across-validate",
            label: say("Validate"),
            tooltip: say("Run what the checks need in a fresh kernel, and say how each exercise stands"),
            onClick: () => validate(panel),
          });
        });
        toolbars.addFactory("Notebook", "across-start", (panel) => new apputils.ToolbarButton({
          className: "across-home",
          label: say("Start page"),
          tooltip: say("The chapters, your progress, and the next step"),
          onClick: async () => { // it tells of the notebook as it is saved
            if (panel.context.model.dirty && panel.context.contentsModel?.writable) await panel.context.save().catch(() => {});
            app.commands.execute(OPEN);
          },
        }));
      },
    };

    // ---- the diary: only where `across lab --diary` asked for it ----

    const SELDOM = 20000; // milliseconds between two notes of the same exercise

    function exerciseOf(panel) {
      const its = (cell) => cell.model.getMetadata("nbgrader") || {}, ours = (cell) => cell.model.getMetadata("across") || {};
      const id = panel.content.activeCell && its(panel.content.activeCell).grade_id;
      const graded = id && panel.content.widgets.find((cell) => its(cell).grade
        && (its(cell).grade_id === id || (ours(cell).answers || []).includes(id)));
      return graded ? ours(graded).exercise || id : "";
    }

    const diary = {
      id: "across:diary",
      autoStart: true,
      requires: [notebook.INotebookTracker],
      activate: (app, tracker) => {
        if (!coreutils.PageConfig.getOption("acrossDiary")) return;
        let last = "", noted = 0;
        const note = (event) => {
          const panel = tracker.currentWidget;
          if (!panel || (event.target && !panel.node.contains(event.target))) return;
          const body = JSON.stringify({ path: panel.context.path, exercise: exerciseOf(panel) });
          if (body === last && Date.now() - noted < SELDOM) return;
          [last, noted] = [body, Date.now()];
          ask("across/diary", { method: "POST", body }).catch(() => {});
        };
        tracker.activeCellChanged.connect(note);
        for (const kind of ["keydown", "pointerdown", "wheel"]) document.addEventListener(kind, note, { capture: true, passive: true });
      },
    };

    return { say, made: [start, beside, diary] };
  }

  async function extension() {
    const names = {
      widgets: "@lumino/widgets", apputils: "@jupyterlab/apputils", services: "@jupyterlab/services", coreutils: "@jupyterlab/coreutils",
      icons: "@jupyterlab/ui-components", notebook: "@jupyterlab/notebook", application: "@jupyterlab/application",
    };
    const found = { ...(await import(new URL("exercises.js", HERE).href)) };
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
