// It comes with a picture that is moved by hand and runs in its figure alone: no kernel, no network, and no number is computed
// here that Python has not written into `data-hands`.
(figure) => {
  const data = JSON.parse(figure.dataset.hands);
  const all = (css) => [...figure.querySelectorAll(css)];
  const say = (words) => { if (figure.querySelector("output").textContent !== words) figure.querySelector("output").textContent = words; };

  function lines() {
    const sliders = all("input"), svg = figure.querySelector("svg"), picture = figure.querySelector("[data-moves] img"), cells = all("td");
    const show = () => {
      const at = sliders.map((each) => +each.value);
      const row = at.slice(1).reduce((sum, value, i) => sum * data.values[i + 1].length + value, 0);
      const chosen = at.map((value, i) => data.values[i][value]);
      sliders.forEach((each, i) => {
        each.setAttribute("aria-valuetext", chosen[i]);
        each.nextElementSibling.textContent = chosen[i];
      });
      all("[data-at]").forEach((each) => { each.setAttribute("x1", data.x[at[0]]); each.setAttribute("x2", data.x[at[0]]); });
      const told = data.lines.map((line, i) => {
        const y = line.y[row], dot = all("circle")[i];
        all("polyline")[i].setAttribute("points", y.flatMap((each, j) => each === null ? [] : [`${data.x[j]},${each}`]).join(" "));
        dot.setAttribute("cx", data.x[at[0]]);
        dot.setAttribute("cy", y[at[0]] ?? -9);
        line.says[row].forEach((text, j) => { cells[j * (1 + data.lines.length) + 1 + i].textContent = text; });
        return data.pair.replace("{0}", line.name).replace("{1}", line.says[row][at[0]]);
      });
      const settings = chosen.map((text, i) => data.pair.replace("{0}", data.names[i]).replace("{1}", text));
      const ends = data.lines.map((line) => data.ends.replace("{0}", line.name).replace("{1}", line.says[row][0]).replace("{3}", line.says[row].at(-1)));
      figure.querySelector("details p").textContent = settings.slice(1).join(data.comma);
      picture.alt = data.alt.replace("{2}", settings.slice(1).join(data.comma)).replace("{3}", ends.join(data.semicolon));
      say(data.whole.replace("{1}", told.join(data.comma)).replace("{2}", settings.join(data.comma)));
    };
    sliders.forEach((each) => each.addEventListener("input", show));
    const point = (event) => { // a finger on the chart moves the first slider
      const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      const far = data.x.map((each) => Math.abs(each - x));
      sliders[0].value = far.indexOf(Math.min(...far));
      show();
    };
    svg.addEventListener("pointerdown", (event) => { svg.setPointerCapture(event.pointerId); point(event); });
    svg.addEventListener("pointermove", (event) => { if (event.buttons) point(event); });
    show();
  }

  function placement() {
    const svg = figure.querySelector("svg"), wide = Math.max(340, Math.min(640, figure.clientWidth || 640));
    const lane = wide / data.lanes.length, tall = 34, top = 46, at = data.ops.map((op) => op.lane), devices = all("tbody tr").map((row) => row.children[2]);
    const made = (kind, facts, parent, text) => {
      const element = document.createElementNS(svg.namespaceURI, kind);
      for (const [name, value] of Object.entries(facts)) element.setAttribute(name, value);
      if (text) element.textContent = text;
      return parent.appendChild(element);
    };
    const middle = (number) => (number + 0.5) * lane;
    svg.setAttribute("viewBox", `0 0 ${wide} ${top + tall * data.rows}`);
    svg.style.maxWidth = `${wide}px`;
    const title = made("text", { x: 4, y: 14, "font-weight": "bold", fill: data.ink }, svg);
    data.lanes.forEach((name, i) => {
      made("rect", { x: i * lane + 2, y: 20, width: lane - 4, height: 9999, rx: 6, fill: data.ink, "fill-opacity": 0.09 }, svg);
      made("text", { x: middle(i), y: 36, "text-anchor": "middle", "font-weight": "bold", fill: data.ink }, svg, name);
    });
    const edges = made("g", {}, svg);
    const boxes = data.ops.map((op, i) => {
      const box = made("g", op.fixed ? {} : { tabindex: 0, role: "slider", "aria-label": op.name, "aria-valuemin": 0,
        "aria-valuemax": data.lanes.length - 1, style: "cursor: grab" }, svg);
      const half = lane / 2 - 5, shape = { x: -half, y: 0, width: 2 * half, height: tall - 10, rx: 4, stroke: data.ink };
      made("rect", { ...shape, "stroke-width": op.fixed ? 1.2 : 0, fill: "#ffffff" }, box);
      op.label.forEach((text, line) => {
        const facts = { x: 0, y: op.label[1] ? 11 + 9 * line : 16, "text-anchor": "middle", "font-size": line ? 8 : 10.5 };
        const shown = made("text", { ...facts, "font-weight": line ? "normal" : "bold" }, box, text);
        if (shown.getComputedTextLength() > 2 * half - 4) // a phone's lane
          shown.setAttribute("textLength", 2 * half - 4), shown.setAttribute("lengthAdjust", "spacingAndGlyphs");
      });
      if (op.fixed) return box;
      box.addEventListener("keydown", (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (by) event.preventDefault(), put(i, at[i] + by);
      });
      box.addEventListener("pointerdown", (event) => { box.setPointerCapture(event.pointerId); box.focus(); });
      box.addEventListener("pointermove", (event) => {
        if (event.buttons) box.setAttribute("transform", `translate(${across(event)},${y(op)})`);
      });
      box.addEventListener("pointerup", (event) => put(i, Math.floor(across(event) / lane)));
      box.addEventListener("pointercancel", () => show(""));
      return box;
    });
    const y = (op) => top + op.row * tall;
    const across = (event) => { const box = svg.getBoundingClientRect(); return (event.clientX - box.left) / box.width * wide; };
    const put = (i, wanted) => { // what a pin to that lane comes to, TensorFlow has said
      wanted = Math.max(0, Math.min(data.lanes.length - 1, wanted));
      const op = data.ops[i], ran = op.answers[wanted];
      at[i] = ran ?? at[i];
      const told = ran === wanted ? data.moved : data.stays;
      show(told.replace("{0}", op.name).replace("{1}", data.lanes[wanted]).replace("{2}", op.said[wanted]));
    };
    const show = (words) => {
      const start = data.ops.every((op, i) => op.lane === at[i]), copies = new Set();
      edges.replaceChildren();
      data.ops.forEach((op, i) => {
        const fill = op.fixed ? "none" : data.fills[at[i]][0];
        boxes[i].setAttribute("transform", `translate(${middle(at[i])},${y(op)})`);
        if (!op.fixed) boxes[i].setAttribute("aria-valuenow", at[i]), boxes[i].setAttribute("aria-valuetext", data.lanes[at[i]]);
        boxes[i].firstChild.setAttribute("fill", op.fixed ? "#ffffff" : fill);
        boxes[i].querySelectorAll("text").forEach((each) => each.setAttribute("fill", op.fixed ? data.ink : data.fills[at[i]][1]));
        devices[i].textContent = data.lanes[at[i]];
        op.reads.forEach((from) => {
          const copied = at[from] !== at[i], [x0, y0] = [middle(at[from]), y(data.ops[from]) + tall - 10], [x1, y1] = [middle(at[i]), y(op)];
          const side = copied || y1 - y0 < tall ? 0 : lane * 0.6; // around the boxes between
          const style = { fill: "none", stroke: copied ? data.alert : data.ink, "stroke-width": copied ? 1.8 : 1.2 };
          made("path", { ...style, "stroke-dasharray": copied ? "5 3" : "",
            d: `M${x0},${y0} C${x0 + side},${y0 + 14} ${x1 + side},${y1 - 14} ${x1},${y1 - 3}` }, edges);
          made("path", { fill: style.stroke, d: `M${x1 - 3},${y1 - 6} h6 l-3,6 z` }, edges);
          if (copied) copies.add(`${from} ${at[i]}`);
        });
      });
      const bytes = [...copies].reduce((sum, each) => sum + data.ops[each.split(" ")[0]].bytes, 0);
      title.textContent = data.title.replace("{0}", start ? data.recorded : data.simulated);
      const sum = data.sum.replace("{0}", start ? data.recorded : data.simulated).replace("{1}", copies.size).replace("{2}", bytes);
      svg.setAttribute("aria-label", data.of.replace("{1}", sum));
      say(words + sum);
    };
    show("");
  }

  all("[data-still]").forEach((each) => { each.hidden = true; });
  all("[data-moves]").forEach((each) => { each.hidden = false; });
  ({ lines, placement })[data.kind]();
}
