const state = JSON.parse(document.getElementById("state").textContent);
const served = state.reviewer !== null;
// As review_frame.js keeps it.
const token = served ? sessionStorage.getItem("fedannot review") || "" : "";
const byId = (name) => document.getElementById(name);
const MAX_CONTENTS = 6;
const DECIDING = ["decide", "commenting"];
const WORDS = { accept: "Accepted", keep: "Kept", later: "Later", edit: "Drawn" };
const decisions = new Map(Object.entries(state.decisions));
const contents = new Map();
const crops = new Map();
const ENDED = "the command that serves this page has ended. Start it again; what was stored before is kept.";
const STORE = `fedannot ${state.site} ${state.audit}`;
let shownCases = state.cases.map((_, index) => index);
let current = { position: 0, finding: 0 };
let drawn = null;
let plane = 0;
let busy = false;

const element = (tag, options = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") made.className = value; else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
};
const baseName = (path) => path.split("/").pop();
const caseNow = () => state.cases[shownCases[current.position]];
const findingNow = () => caseNow() && caseNow().findings[current.finding];
// Of a case without a finding it is asked whether anybody has seen it; of some, for the reference, whether it is right.
const isQuestion = (finding) => finding.kind === "nothing_found";
const isAsked = (finding) => isQuestion(finding) || finding.kind === "reference";
const allFindings = state.cases.flatMap((one) => one.findings).filter((finding) => !isQuestion(finding));
const differing = new Set(state.differing);
const choiceOf = (finding) => decisions.get(finding.id)?.choice;
const wordOf = (finding, choice) => (isQuestion(finding) && choice === "keep" ? "Seen, nothing wrong" : WORDS[choice]);
const isDiffering = (finding) => differing.has(finding.id) && !choiceOf(finding);
const isDecided = (one) => one.findings.every((finding) => choiceOf(finding));

// What is asked of the server, or found in the page.
async function asked(path, options = {}) {
  const headers = { "X-Review-Token": token, ...(options.headers || {}) };
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  const body = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(body.problem), { contradicts: body.contradicts });
  return body;
}
const NOT_HELD = "its images are not in this file.";
const heldOf = (name, absent) => (byId(name) ? JSON.parse(byId(name).textContent) : absent);
async function contentOf(index) {
  if (contents.has(index)) return contents.get(index);
  const content = served ? await asked(`case/${index}`) : heldOf(`content-${index}`, { problem: NOT_HELD });
  contents.set(index, content);
  while (contents.size > MAX_CONTENTS) contents.delete(contents.keys().next().value);
  return content;
}
// One crop after the other: a browser asks a server for few things at a time, and the case itself goes first.
let cropping = Promise.resolve();
let showing = Promise.resolve();
async function untilShown() {
  for (let before = null; before !== showing;) {
    before = showing;
    await before;
  }
}
async function cropOf(index) {
  if (!served) return heldOf(`crop-${index}`, "");
  if (!crops.has(index)) {
    crops.set(index, cropping.then(untilShown).then(async () => (await asked(`crop/${index}`)).crop));
    cropping = crops.get(index).catch(() => crops.delete(index));
  }
  return crops.get(index);
}
