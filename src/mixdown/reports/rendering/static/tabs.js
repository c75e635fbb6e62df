// The row of tabs below the summary.

class Tabs {
  constructor(onShow) {
    this.onShow = onShow;
    this.entries = [];
    byId("tabs").addEventListener("keydown", (event) => this.key(event));
  }

  // What stands in a tab is built when it is first shown.
  add(name, title, badge, build) {
    const tab = el(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${name}`,
        "aria-controls": `panel-${name}`,
        onclick: () => this.show(name),
      },
      title,
      badge ? el("span", { class: "tab-badge" }, badge) : null,
    );
    const panel = el("div", {
      role: "tabpanel",
      id: `panel-${name}`,
      class: `panel-${name}`,
      "aria-labelledby": `tab-${name}`,
      hidden: true,
    });
    byId("tabs").append(tab);
    byId("panels").append(panel);
    this.entries.push({ name, tab, panel, build });
  }

  clear() {
    byId("tabs").replaceChildren();
    byId("panels").replaceChildren();
    this.entries = [];
  }

  show(name) {
    this.current = this.entries.some((entry) => entry.name === name) ? name : "graph";
    for (const { name: each, tab, panel, build } of this.entries) {
      if (each === this.current && !panel.hasChildNodes()) fill(panel, {}, [build()]);
      tab.setAttribute("aria-selected", String(each === this.current));
      tab.setAttribute("tabindex", each === this.current ? "0" : "-1");
      panel.hidden = each !== this.current;
    }
    this.onShow(this.current);
  }

  key(event) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -this.entries.length, End: this.entries.length };
    if (!(event.key in moves)) return;
    const at = this.entries.findIndex((entry) => entry.name === this.current);
    const next = this.entries[Math.max(0, Math.min(this.entries.length - 1, at + moves[event.key]))];
    this.show(next.name);
    next.tab.focus();
    event.preventDefault();
  }
}
