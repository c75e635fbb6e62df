// Search by name or kind: every word must occur; whatever begins with the last part of a name comes first, and what
// belongs to the forward pass before its gradients.

const MOST_FOUND = 50;

function find(graph, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  if (!graph.keys) graph.keys = graph.ops.map((op) => `${op.label} ${op.kind}`.toLowerCase());
  const found = graph.ops.filter((op) => words.every((word) => graph.keys[op.id].includes(word)));
  return found.sort((a, b) => a.backward - b.backward || rank(a, words) - rank(b, words) || a.id - b.id);
}

function rank(op, words) {
  const name = op.name.toLowerCase();
  const word = words[words.length - 1];
  if (name === words.join(" ")) return 0;
  if (name.slice(name.lastIndexOf("/") + 1).startsWith(word)) return 1;
  return name.includes(word) ? 2 : 3;
}

// The text with the words found in it marked.
function marked(text, query) {
  const words = query
    .toLowerCase()
    .split(/\s+/)
    .filter(Boolean)
    .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pieces = words.length ? text.split(new RegExp(`(${words.join("|")})`, "i")) : [text];
  return pieces
    .filter(Boolean)
    .map((piece) =>
      words.length && new RegExp(`^(?:${words.join("|")})$`, "i").test(piece) ? el("mark", {}, piece) : piece,
    );
}

class Search {
  constructor(onOp) {
    this.onOp = onOp;
    [this.input, this.box, this.list, this.status] = ["search", "search-box", "search-results", "search-count"].map(
      byId,
    );
    this.found = [];
    this.input.addEventListener("input", () => this.run());
    this.input.addEventListener("focus", () => this.run());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("blur", () => this.close());
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
        event.preventDefault();
        this.input.focus();
      }
    });
  }

  load(graph) {
    this.graph = graph;
    this.input.value = "";
    this.close();
  }

  run() {
    const query = this.input.value.trim();
    this.found = find(this.graph, query);
    this.at = 0;
    this.box.hidden = !query;
    this.input.setAttribute("aria-expanded", String(!this.box.hidden));
    const shown = this.found.slice(0, MOST_FOUND);
    const more = this.found.length > MOST_FOUND ? `, first ${MOST_FOUND} shown` : "";
    this.status.textContent = this.found.length ? `${counted(this.found.length, "op")} found${more}` : "No op found";
    this.list.replaceChildren(...shown.map((op, index) => this.option(op, index, query)));
    this.point();
  }

  option(op, index, query) {
    return el(
      "li",
      {
        role: "option",
        id: `found-${index}`,
        onmousedown: (event) => {
          event.preventDefault();
          this.take(index);
        },
      },
      el("span", { class: `dot fill-${op.precision}` }),
      el("span", { class: "name" }, marked(op.label, query)),
      el("span", { class: "row-kind" }, marked(op.kind, query)),
    );
  }

  point() {
    [...this.list.children].forEach((option, index) => option.setAttribute("aria-selected", String(index === this.at)));
    const current = this.list.children[this.at];
    if (current && !this.box.hidden) {
      this.input.setAttribute("aria-activedescendant", current.id);
      current.scrollIntoView({ block: "nearest" });
    } else this.input.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in moves) this.at = Math.max(0, Math.min(this.list.children.length - 1, this.at + moves[event.key]));
    else if (event.key === "Enter") this.take(this.at);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
    this.point();
  }

  take(index) {
    if (!this.found[index]) return;
    this.close();
    this.onOp(this.found[index]);
  }

  close() {
    this.box.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}
