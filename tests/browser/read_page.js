// What a reader would stumble over on the page, as far as a browser can tell: a list of sentences, empty if there is nothing.
const found = [];
const root = document.documentElement;
if (root.scrollWidth > innerWidth) found.push(`the page is ${root.scrollWidth} px wide in ${innerWidth}`);
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const rgb = (color) => color.match(/[\d.]+/g).map(Number);
const light = (color) => {
  const [r, g, b] = rgb(color).map((each) => (each /= 255) <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
  for (let each = element; each; each = each.parentElement) {
    const color = getComputedStyle(each).backgroundColor;
    if (rgb(color)[3] !== 0) return color;
  }
  return "rgb(255, 255, 255)";
};
while (walker.nextNode()) {
  const node = walker.currentNode, parent = node.parentElement, style = getComputedStyle(parent);
  if (!node.data.trim() || ["SCRIPT", "STYLE", "OPTION", "TITLE"].includes(parent.nodeName.toUpperCase())) continue;
  if (!parent.checkVisibility({ visibilityProperty: true }) || parent.closest(".unseen")) continue;
  if (innerWidth < 500 && parent.closest("thead")) continue;  // cards name their columns themselves
  const front = parent instanceof SVGElement ? style.fill : style.color;
  const [one, other] = [light(front), light(behind(parent))];
  const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  if (contrast < 4.5) found.push(`contrast ${contrast.toFixed(2)}: ${node.data.trim().slice(0, 60)} (${front})`);
  if (parent instanceof SVGElement || parent.closest("pre, .line")) continue;
  for (const word of node.data.matchAll(/[\p{L}\p{N}_.']+/gu)) {
    const [before] = node.data.slice(0, word.index).match(/\S*$/), [after] = node.data.slice(word.index).match(/^\S*/);
    if (before.length + after.length > 30) continue; // no page can help it where nobody put a space
    if (/\p{Script=Han}/u.test(word[0])) continue; // Chinese may be broken between any two characters
    const range = document.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
    if (lines.size > 1) found.push(`broken: ${before}${after} in ${parent.outerHTML.slice(0, 80)}`);
  }
}
for (const each of document.querySelectorAll(".scroll"))
  if (innerWidth < 500 && each.scrollWidth > each.clientWidth) found.push("a table is wider than the phone");
for (const each of document.querySelectorAll("svg[role=img] text")) {
  const box = each.getBoundingClientRect();
  if (box.left < -1 || box.right > innerWidth + 1) found.push(`off the page: ${each.textContent}`);
}
return [...new Set(found)];
