// Decisions.
function say(text, failed = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("failed", failed);
}
function showProgress() {
  const decided = allFindings.filter((finding) => ["accept", "keep"].includes(choiceOf(finding))).length;
  const later = allFindings.filter((finding) => choiceOf(finding) === "later").length;
  byId("progress").textContent = `${decided} of ${allFindings.length} findings decided${later ? `, ${later} for later` : ""}`;
}
async function decide(choice, goOn = true) {
  const finding = findingNow();
  if (!finding || busy || state.shared) return;
  if (!drawn) { say("This case is not to be seen yet.", true); return; }
  if (choice === "accept" && !finding.canAccept) { say("Nothing is suggested for this finding: keep it, or leave it for later.", true); return; }
  if (!served && !byId("reviewer").value.trim()) {
    say("Enter your name first: a decision is stored with it.", true);
    byId("reviewer").focus();
    return;
  }
  const reason = byId("comment").value.trim(), index = drawn.index;
  busy = true;
  try {
    const stored = served
      ? (await asked("decisions", { method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ case: index, finding: finding.id, choice, reason, shown: drawn.content.shown }) })).decision
      : { finding: finding.id, choice, reviewer: byId("reviewer").value.trim(), reason, shown: drawn.content.shown,
        time: new Date().toISOString().replace(/\.\d+Z$/, "+00:00") };
    decisions.set(finding.id, stored);
    if (!served) keepInBrowser();
    byId("comment").value = "";
    fillRow(index);
    showFindings();
    points[index].classList.toggle("decided", isDecided(state.cases[index]));
    showProgress();
    const kept = served ? "stored" : "kept in this browser until you download it";
    say(`${WORDS[choice]}: ${baseName(caseNow().image)}, ${kept}.`);
    if (goOn) step(1, true);
  } catch (error) {
    const reachable = !(error instanceof TypeError);
    say(`Not stored: ${reachable ? error.message : ENDED}`, true);
  } finally {
    busy = false;
  }
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
    if ((!openOnly || !choiceOf(found)) && (passes(found) || openOnly === false)) { select(position, finding); return; }
  }
}
function keepInBrowser() {
  try { localStorage.setItem(STORE, JSON.stringify([...decisions.values()])); } catch { /* Private windows keep nothing. */ }
}
function takeFromBrowser() {
  try {
    for (const one of JSON.parse(localStorage.getItem(STORE) || "[]")) decisions.set(one.finding, one);
  } catch { /* As above. */ }
}
function download() {
  const content = JSON.stringify({ version: 1, site: state.site, decisions: [...decisions.values()] }, null, 2);
  const address = URL.createObjectURL(new Blob([content], { type: "application/json" }));
  const link = element("a", { href: address, download: `decisions-${state.site.replace(/[^\w.-]/g, "_")}.json` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
  say(`${decisions.size} decisions downloaded. The command fedannot audit apply takes the file.`);
}
