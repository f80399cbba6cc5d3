"use strict";
// Sorts and filters the rows of a table that the page already shows whole: it moves rows and hides them, and makes nothing
// of what stands in them. The page's policy names this script by its digest and lets no other one run.
for (const tools of document.querySelectorAll(".tools")) {
  const table = document.getElementById(tools.dataset.table);
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const [show, sort, find] = ["show", "sort", "find"].map((name) => tools.querySelector("." + name));
  const count = tools.querySelector("output");

  const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  const compare = (one, other) => {
    if (one === "" || other === "") return (one === "") - (other === "");
    const [a, b] = [Number(one), Number(other)];
    return Number.isNaN(a) || Number.isNaN(b) ? one.localeCompare(other) : a - b;
  };

  function order() {
    const [column, down] = [Number(sort.value.slice(1)), sort.value[0] === "-"];
    const sorted = rows.map((row) => [value(row, column), row]).sort(([a], [b]) =>
      down && a !== "" && b !== "" ? compare(b, a) : compare(a, b));
    body.append(...sorted.map(([, row]) => row));
    for (const [index, head] of heads.entries())
      if (index === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
  }

  function filter() {
    const wanted = find.value.trim().toLowerCase();
    for (const row of rows)
      row.hidden = !(show.value === "" || row.dataset.flags.split(" ").includes(show.value)) ||
        !row.cells[0].textContent.toLowerCase().includes(wanted);
    const seen = rows.filter((row) => !row.hidden).length;
    count.textContent = `${seen} of ${rows.length}`;
  }

  for (const [index, head] of heads.entries()) {
    if (!head.dataset.sort) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    for (const [sign, says] of [["+", head.dataset.sort], ["-", head.dataset.sort + ", from the top down"]])
      sort.append(new Option(says, sign + index));
    button.addEventListener("click", () => {
      sort.value = (sort.value === "+" + index ? "-" : "+") + index;
      order();
    });
  }
  sort.addEventListener("change", order);
  show.addEventListener("change", filter);
  find.addEventListener("input", filter);
  filter();
  tools.hidden = false;
}
