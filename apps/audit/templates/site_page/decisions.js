// Decisions.
const DECIDED = ["accept", "keep", "edit"];
// What this reader can undo, the latest last; without a server all that was decided, in its order.
const actions = [];
// What a record of a decision that is made in this page may hold.
const RECORD = ["finding", "choice", "reviewer", "reason", "shown", "action", "time", "undoes"];
let log = [];
function say(text, failed = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("failed", failed);
}
function showProgress() {
  const decided = allFindings.filter((finding) => DECIDED.includes(choiceOf(finding))).length;
  const later = allFindings.filter((finding) => choiceOf(finding) === "later").length;
  byId("progress").textContent = `${decided} of ${allFindings.length} findings decided${later ? `, ${later} for later` : ""}`;
  byId("undo").disabled = !actions.length;
}
async function decide(choice, goOn = true, mask = "") {
  const finding = findingNow();
  if (!finding || busy || state.shared) return false;
  if (!drawn) { say("This case is not to be seen yet.", true); return false; }
  if (choice === "accept" && !finding.canAccept) { say("Nothing is suggested for this finding: keep it, or leave it for later.", true); return false; }
  if (!served && !byId("reviewer").value.trim()) {
    say("Enter your name first: a decision is stored with it.", true);
    byId("reviewer").focus();
    return false;
  }
  const reason = byId("comment").value.trim(), { index } = drawn, { shown } = drawn.content;
  const wanted = { case: index, finding: finding.id, choice, reason, shown };
  busy = true;
  try {
    const stored = served ? await decided({ ...wanted, mask }) : await decidedHere(wanted, drawn.content.excludes);
    if (!stored) { say("Nothing was stored; what was decided before stays."); return false; }
    for (const one of stored) decisions.set(one.finding, one);
    actions.push(stored[0].action);
    if (!served) { log.push(...stored); keepInBrowser(); }
    byId("comment").value = "";
    showDecisions(index);
    const kept = served ? "stored" : "kept in this browser until you download it";
    say(`${wordOf(finding, choice)}: ${baseName(state.cases[index].image)}, ${kept}.`);
    if (goOn) step(1, true);
    return true;
  } catch (error) {
    const reachable = !(error instanceof TypeError);
    say(`Not stored: ${reachable ? error.message : ENDED}`, true);
    return false;
  } finally {
    busy = false;
  }
}
// What the server has stored; null where it contradicts other decisions and the reader leaves it at that.
async function decided(wanted) {
  try {
    return (await sent("decisions", wanted)).decisions;
  } catch (error) {
    if (!error.contradicts || !(await asks(contradiction(wanted, error.contradicts), "Replace"))) {
      if (error.contradicts) return null;
      throw error;
    }
    return (await sent("decisions", { ...wanted, confirmed: error.contradicts })).decisions;
  }
}
// The same without a server: of what is in the page, and in this browser.
async function decidedHere(wanted, excludes) {
  const gone = excludedHere(wanted, excludes);
  if (gone.length && !(await asks(contradiction(wanted, gone), "Replace"))) return null;
  const { finding, choice, reason, shown } = wanted;
  const first = { finding, choice, reviewer: byId("reviewer").value.trim(), reason, shown, action: newAction(), time: timeNow() };
  const others = gone.filter((name) => name !== finding);
  return [first, ...others.map((name) => ({ ...first, finding: name, choice: "later", reason: "" }))];
}
// Findings of the case whose decisions cannot count with this one; the rule is that of contradictions.py.
function excludedHere({ case: index, finding, choice }, excludes) {
  const chosen = (wanted) => state.cases[index].findings.filter((one) => choiceOf(one) === wanted).map((one) => one.id);
  const masks = chosen("edit");
  if (choice === "accept") return [...masks, ...chosen("accept").filter((name) => (excludes[finding] || []).includes(name))];
  return masks.includes(finding) ? masks : [];
}
const timeNow = () => new Date().toISOString().replace(/\.\d+Z$/, "+00:00");
const sent = (path, body) => asked(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
function contradiction({ case: index, choice }, names) {
  const others = names.map((name) => {
    const { title } = state.cases[index].findings.find((finding) => finding.id === name), decision = decisions.get(name);
    const by = decision?.reviewer ? ` by ${decision.reviewer}` : "";
    return `“${title}”${decision ? ` (${WORDS[decision.choice].toLowerCase()}${by})` : ""}`;
  });
  return `“${WORDS[choice]}” contradicts what was decided of this case: ${others.join(", ")}. Only one of them can count.`;
}
// A question of the page: whether the reader agrees.
function asks(text, agree) {
  const dialog = byId("question");
  byId("question-text").textContent = text;
  byId("question-agree").textContent = agree;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "agree"), { once: true });
  });
}
for (const [name, value] of [["question-agree", "agree"], ["question-leave", ""]])
  byId(name).addEventListener("click", () => byId("question").close(value));
function showDecisions(index) {
  if (rows[index]) fillRow(index);
  if (drawn?.index === index) showFindings();
  forgetDrawing(index);
  points[index]?.classList.toggle("decided", isDecided(state.cases[index]));
  showProgress();
}
// The last action is undone; the log keeps both.
async function undoDecision() {
  if (!actions.length || busy || state.shared) return;
  const action = actions.at(-1);
  busy = true;
  try {
    let changed;
    if (served) changed = (await sent("undo", { action })).decisions;
    else {
      const undone = log.filter((one) => one.action === action);
      changed = Object.fromEntries(undone.map((one) => [one.finding, null]));
      log.push({ finding: "", choice: "undo", reviewer: undone[0].reviewer, action: newAction(), undoes: action,
        time: timeNow() });
      for (const one of counting(log)) if (one.finding in changed) changed[one.finding] = one;
      keepInBrowser();
    }
    actions.pop();
    const names = Object.keys(changed);
    for (const name of names) if (changed[name]) decisions.set(name, changed[name]); else decisions.delete(name);
    const index = state.cases.findIndex((one) => one.findings.some((finding) => finding.id === names[0]));
    showDecisions(index);
    if (shownCases.includes(index))
      await select(shownCases.indexOf(index), state.cases[index].findings.findIndex((finding) => finding.id === names[0]));
    const now = changed[names[0]];
    say(`Undone: ${baseName(state.cases[index].image)}, ${now ? `${WORDS[now.choice].toLowerCase()} as before` : "open again"}.`);
  } catch (error) {
    say(`Not undone: ${error instanceof TypeError ? ENDED : error.message}`, true);
  } finally {
    busy = false;
  }
}
const newAction = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
// The decisions of a log that their reviewer has not undone; an undone undo undoes nothing. The rule is that of
// Decisions.valid.
function counting(all) {
  const undone = new Set(), valid = [];
  for (const one of [...all].reverse()) {
    if (one.action && undone.has(`${one.action} ${one.reviewer}`)) continue;
    if (one.choice === "undo") undone.add(`${one.undoes} ${one.reviewer}`); else valid.push(one);
  }
  return valid.reverse();
}
function takeActions(names) {
  actions.push(...new Set(names.filter(Boolean)));
}
function step(by, openOnly = false) {
  let { position, finding } = current;
  const total = shownCases.length;
  for (;;) {
    finding += by;
    if (finding < 0) { position -= 1; if (position < 0) return; finding = state.cases[shownCases[position]].findings.length - 1; }
    if (finding >= state.cases[shownCases[position]].findings.length) { position += 1; finding = 0; }
    if (position >= total) { if (openOnly) say(`${byId("status").textContent} That was the last one.`); return; }
    const found = state.cases[shownCases[position]].findings[finding];
    if ((!openOnly || !choiceOf(found)) && (passes(found, shownCases[position]) || openOnly === false)) { select(position, finding); return; }
  }
}
function keepInBrowser() {
  try { localStorage.setItem(STORE, JSON.stringify(log)); } catch { /* Private windows keep nothing. */ }
}
// Other pages may write where this one keeps its own: one record of no finding here, and no command takes the file.
function isRecord(one) {
  if (typeof one !== "object" || one === null || !["reviewer", "time", "action"].every((name) => name in one)) return false;
  if (!Object.entries(one).every(([name, value]) => RECORD.includes(name) && typeof value === "string")) return false;
  if (!/^[0-9a-f]{32}$/.test(one.action)) return false;
  if (one.choice === "undo") return one.finding === "" && /^[0-9a-f]{32}$/.test(one.undoes);
  const finding = state.cases.flatMap((each) => each.findings).find((each) => each.id === one.finding);
  return Boolean(finding) && (["keep", "later"].includes(one.choice) || (one.choice === "accept" && finding.canAccept));
}
function takeFromBrowser() {
  log = [...decisions.values()];
  try {
    const known = new Set(log.map((one) => JSON.stringify(one)));
    const own = JSON.parse(localStorage.getItem(STORE) || "[]").filter((one) => isRecord(one) && !known.has(JSON.stringify(one)));
    // What somebody has decided since, and this page brings, stays the last.
    log = [...log, ...own].sort((one, other) => (one.time < other.time ? -1 : one.time > other.time ? 1 : 0));
    for (const one of counting(log)) decisions.set(one.finding, one);
    takeActions(counting(log).filter((one) => own.includes(one)).map((one) => one.action));
  } catch { /* As above. */ }
}
function download() {
  const content = JSON.stringify({ version: 2, site: state.site, decisions: log }, null, 2);
  const address = URL.createObjectURL(new Blob([content], { type: "application/json" }));
  const link = element("a", { href: address, download: `decisions-${state.site.replace(/[^\w.-]/g, "_")}.json` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
  say(`${decisions.size} decisions downloaded. The command fedannot audit apply takes the file.`);
}
