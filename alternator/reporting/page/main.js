// The frame around the sections: head, tabs, the address (#section/...), the theme.

const SECTIONS = [
  ["overview", "Overview", showOverview, null],
  ["source", "Source", showSource, () => D.files.filter((file) => file.parts.length).length],
  ["breaks", "Breaks", showBreaks, () => sum(breaks.map((group) => group.count))],
  ["graphs", "Graphs", showGraphs, () => graphs.length],
  ["guards", "Guards", showGuards, () => sum(graphs.map((graph) => graph.guards))],
  ["recompiles", "Recompilations", showRecompiles, () => D.recompiles.length],
  ["timeline", "Timeline", showTimeline, null],
];

function showHead() {
  document.getElementById("program").textContent = D.title;
  const status = D.status === null || D.status === undefined ? null : D.status === 0 ? "ended normally" : typeof D.status === "string" ? `ended by ${D.status}` : `ended with status ${D.status}`;
  const facts = [D.started.replace("T", " ").slice(0, 16), duration(D.seconds), ...Object.entries(D.versions).map(([name, version]) => `${name} ${version}`)];
  document.getElementById("facts").append(...facts.map((fact) => el("span", null, fact)), status ? el(typeof D.status === "number" && D.status ? "span.warn" : "span", null, status) : "");
}

function makeTabs() {
  const tabs = document.getElementById("tabs");
  tabs.append(...SECTIONS.map(([name, title, , count]) => el("a.tab", { href: `#${name}`, role: "tab", id: `tab-${name}`, "aria-controls": "content" }, title, count ? el("span.badge", null, number(count())) : null)));
  tabs.addEventListener("keydown", (event) => {
    const at = SECTIONS.findIndex(([name]) => `tab-${name}` === document.activeElement.id);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: SECTIONS.length - 1 }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    location.hash = SECTIONS[(next + SECTIONS.length) % SECTIONS.length][0];
    document.getElementById(`tab-${SECTIONS[(next + SECTIONS.length) % SECTIONS.length][0]}`).focus();
  });
}

function showSection() {
  const [name, ...rest] = decodeURIComponent(location.hash.slice(1)).split("/");
  if (name === "content") return;
  const section = SECTIONS.find(([known]) => known === name) || SECTIONS[0];
  for (const [known] of SECTIONS) {
    const tab = document.getElementById(`tab-${known}`);
    tab.setAttribute("aria-selected", String(known === section[0]));
    tab.tabIndex = known === section[0] ? 0 : -1;
  }
  const content = document.getElementById("content");
  const list = content.querySelector(".list");
  const scrolled = list && content.dataset.section === section[0] ? list.scrollTop : 0;
  content.dataset.section = section[0];
  content.setAttribute("role", "tabpanel");
  content.setAttribute("aria-labelledby", `tab-${section[0]}`);
  content.replaceChildren();
  section[2](content, rest);
  if (content.querySelector(".list")) content.querySelector(".list").scrollTop = scrolled;
  if (!rest.length) window.scrollTo(0, 0);
}

const THEMES = ["auto", "light", "dark"];

function setTheme(theme) {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = `Theme: ${theme}`;
  button.onclick = () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
}

showHead();
makeTabs();
setTheme("auto");
showSection();
window.addEventListener("hashchange", showSection);
