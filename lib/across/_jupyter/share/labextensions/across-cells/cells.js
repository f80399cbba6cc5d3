// How the cells of a chapter look: a folded check is a button, what was not attempted is no error, and to open is not to change.
//
// A federated extension like ../across/lab.js. Public of JupyterLab: docRegistry, commands, the models of notebooks and outputs. Not
// public: the class names of a folded cell. Where they are others, a check is shown as JupyterLab shows any folded cell.
"use strict";
(() => {
  const OPEN = ["NotAttempted", "Waiting"]; // of across.attempt: nothing is wrong
  const SAID = [...OPEN, "NotYet", "Broke"]; // sentences, whose `code` is shown as such
  let shared;

  async function module(name) {
    const versions = Object.values(shared[name]);
    return (await (versions.find((each) => each.loaded) || versions[0]).get())();
  }

  // JupyterLab's comments and brackets have a contrast of 2.7 to 4.2 with the cell, and its printed lines are broken within words.
  const STYLE = `
    body[data-jp-theme-light="true"] { --jp-mirror-editor-comment-color: #2f6f6f; --jp-mirror-editor-bracket-color: #6b6b4a; }
    body[data-jp-theme-light="false"] { --jp-mirror-editor-comment-color: #6aabab; }
    .jp-RenderedText pre { word-break: normal; overflow-wrap: anywhere; }
    .across-check .jp-Placeholder-contentContainer { align-items: center; gap: 0.6em; }
    .across-check .jp-PlaceholderText { display: none; }
    .across-check-run { font-family: var(--jp-ui-font-family); font-size: var(--jp-ui-font-size1); line-height: 1.5; cursor: pointer;
      color: var(--jp-ui-font-color1); background: var(--jp-layout-color1); border: 1px solid var(--jp-border-color0);
      border-radius: 3px; padding: 1px 10px; }
    .across-check-run[aria-busy="true"]::after { content: " …"; }
    .across-check-run:hover { background: var(--jp-layout-color2); }
    .across-check-run:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
    .across-check-run code { font-family: var(--jp-code-font-family); font-size: var(--jp-code-font-size); }
    .jp-OutputArea-child.across-open .jp-OutputArea-output[data-mime-type] { background: var(--jp-layout-color2);
      border-left: 3px solid var(--jp-border-color0); padding-bottom: var(--jp-code-padding); }
    .jp-OutputArea-child.across-open pre { color: var(--jp-ui-font-color1); }
    .jp-OutputArea-child.across-said pre { font-family: var(--jp-content-font-family); font-size: var(--jp-content-font-size1); }
    .jp-OutputArea-child.across-said pre code { font-family: var(--jp-code-font-family); font-size: var(--jp-code-font-size);
      color: inherit; background: none; padding: 0; }`;

  function plugin({ coreutils }) {
    const words = JSON.parse(coreutils.PageConfig.getOption("acrossWords") || "{}");
    const say = (text) => words[text] || text;

    // JupyterLab writes into a notebook what its kernel says of the language, which makes it unsaved before anybody touched it.
    function staysSaved(model) {
      model.metadataChanged.connect((_, change) => {
        if (change.key !== "language_info" || model.dirty) return;
        Promise.resolve().then(() => { model.dirty = false; });
      });
    }

    function exercise(cell) {
      const nbgrader = cell.model.getMetadata("nbgrader") || {};
      if (!nbgrader.grade || nbgrader.solution || cell.model.type !== "code") return "";
      return (cell.model.getMetadata("across") || {}).exercise || nbgrader.grade_id;
    }

    const RAW = "get_ipython().history_manager.input_hist_raw"; // of the kernel: what it ran, at the number beside its cell

    // Those of the cells that this kernel has not run as they are now; null where it has run nothing at all.
    async function unrun(panel, cells) {
      const kernel = panel.sessionContext.session?.kernel;
      if (!kernel) return []; // JupyterLab asks for one
      const asked = { any: `len(${RAW}) > 1` };
      cells.forEach(({ model }, at) => {
        const number = model.executionCount || 0, source = model.sharedModel.getSource().replace(/\n+$/, "");
        asked[at] = `0 < ${number} < len(${RAW}) and ${RAW}[${number}] == ${JSON.stringify(source)}`;
      });
      const sent = { code: "", silent: true, store_history: false, user_expressions: asked };
      const said = (await kernel.requestExecute(sent).done).content.user_expressions || {};
      const holds = (what) => said[what]?.data?.["text/plain"] === "True";
      return said.any?.status === "ok" && !holds("any") ? null : cells.filter((_, at) => !holds(at));
    }

    // The answer is the one on the screen: its cells run before the check, where this kernel has not run them as they are.
    async function check(app, panel, cell, name) {
      const notebook = panel.content, wanted = (cell.model.getMetadata("across") || {}).answers || [];
      const is = (each) => each !== cell && each.model.type === "code" && wanted.includes((each.model.getMetadata("nbgrader") || {}).grade_id);
      const run = (which) => {
        notebook.activeCellIndex = notebook.widgets.indexOf(which);
        notebook.deselectAll();
        return app.commands.execute("notebook:run-cell");
      };
      const stale = await unrun(panel, notebook.widgets.filter(is));
      if (!stale) return tell(cell, name, say("this kernel has run nothing yet: Run, Run All Above Selected Cell, then check."));
      for (const answer of stale) {
        if ((await run(answer)) === false && !raised(answer).includes("NotImplementedError"))
          return tell(cell, name, say("the cell of your answer raised an error, which stands below it; mend it, then check."));
      }
      return run(cell);
    }

    const outputs = (cell) => Array.from({ length: cell.model.outputs.length }, (_, at) => cell.model.outputs.get(at).toJSON());
    const raised = (cell) => outputs(cell).map((each) => each.ename).filter(Boolean);

    // In the check's place, as across.attempt would say it.
    function tell(cell, name, text) {
      cell.model.executionCount = null;
      cell.model.outputs.clear();
      cell.model.outputs.add({ output_type: "error", ename: "Waiting", evalue: text, traceback: [`\u001b[1m○ ${name}: \u001b[0m${text}`] });
    }

    function fold(app, panel, cell, name) {
      const fold = cell.node.querySelector(".jp-InputPlaceholder");
      const content = fold && fold.querySelector(".jp-Placeholder-contentContainer");
      if (!content || content.querySelector(".across-check-run")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "across-check-run";
      button.dataset.lmSuppressShortcuts = "true"; // Enter is its own, and not the notebook's
      button.title = say("Run the check of this exercise");
      button.append(`▶ ${say("Check")} `, Object.assign(document.createElement("code"), { textContent: name }));
      button.addEventListener("click", (event) => {
        event.stopPropagation(); // the fold stays
        if (button.ariaBusy === "true") return;
        button.ariaBusy = "true";
        check(app, panel, cell, name).finally(() => { button.ariaBusy = "false"; });
        button.blur(); // or Ctrl+S would be its, which keeps shortcuts from JupyterLab
        panel.content.activate();
      });
      content.prepend(button);
      fold.classList.add("across-check");
    }

    function marks(cell) {
      const outputs = cell.outputArea && cell.outputArea.model;
      if (!outputs) return;
      cell.outputArea.widgets.forEach((widget, at) => {
        const output = at < outputs.length ? outputs.get(at).toJSON() : {};
        const is = (names) => output.output_type === "error" && names.includes(output.ename);
        widget.node.classList.toggle("across-open", is(OPEN));
        widget.node.classList.toggle("across-said", is(SAID));
        if (is(SAID)) coded(widget.node);
      });
    }

    // Of Markdown `code` alone, as in the panel; where there is none, nothing is changed.
    function coded(node) {
      const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT), found = [];
      while (walker.nextNode()) if (/`[^`\n]+`/.test(walker.currentNode.data)) found.push(walker.currentNode);
      for (const text of found) {
        const parts = text.data.split(/`([^`\n]+)`/);
        text.replaceWith(...parts.map((part, at) => (at % 2 ? Object.assign(document.createElement("code"), { textContent: part }) : part)));
      }
    }

    function look(app, panel) {
      for (const cell of panel.content.widgets) {
        const name = exercise(cell);
        if (!name) continue;
        fold(app, panel, cell, name);
        marks(cell);
      }
    }

    function follow(app, panel) {
      let asked = false;
      const soon = () => {
        if (asked) return;
        asked = true;
        requestAnimationFrame(() => { asked = false; if (!panel.isDisposed) look(app, panel); });
      };
      const observer = new MutationObserver(soon);
      observer.observe(panel.content.node, { childList: true, subtree: true });
      panel.disposed.connect(() => observer.disconnect());
      panel.context.ready.then(() => { staysSaved(panel.context.model); soon(); });
    }

    return {
      id: "across-cells:look",
      autoStart: true,
      activate: (app) => {
        document.head.append(Object.assign(document.createElement("style"), { textContent: STYLE }));
        app.docRegistry.addWidgetExtension("Notebook", { createNew: (panel) => follow(app, panel) });
      },
    };
  }

  const scope = (window._JUPYTERLAB = window._JUPYTERLAB || {});
  scope["across-cells"] = {
    init: (modules) => { shared = modules; },
    get: async () => {
      const made = plugin({ coreutils: await module("@jupyterlab/coreutils") });
      return () => ({ __esModule: true, default: [made] });
    },
  };
})();
