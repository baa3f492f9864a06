// A case.
async function select(position, finding, focus = false) {
  const before = shownCases[current.position];
  current = { position, finding: Math.max(finding, 0) };
  const index = shownCases[position];
  for (const row of byId("list").querySelectorAll("[aria-current]")) {
    row.removeAttribute("aria-current");
    row.tabIndex = -1;
  }
  const { button } = rowOf(index);
  button.setAttribute("aria-current", "true");
  button.tabIndex = 0;
  keepInView(byId("list"), button);
  if (focus) button.focus({ preventScroll: true });
  const one = caseNow();
  byId("case-title").textContent = baseName(one.image);
  const facts = [!state.shared && one.image, one.unit && `patient ${one.unit}`, one.annotators.length && `annotated by ${one.annotators.join(", ")}`,
    `disagreement ${one.disagreement.toFixed(2)}`, `uncertainty ${one.uncertainty.toFixed(2)}`];
  byId("case-meta").textContent = facts.filter(Boolean).join(" · ");
  showFindings();
  markPoint();
  if (before !== index || drawn?.index !== index) byId("comment").value = "";
  // Nothing can be decided of a case that is not yet to be seen.
  if (drawn?.index !== index) drawn = null;
  byId("case").setAttribute("aria-busy", String(!drawn));
  const wanted = current;
  const waiting = setTimeout(() => { clearViews(); say("Reading the case …"); }, 250);
  try {
    const content = await contentOf(index);
    clearTimeout(waiting);
    if (wanted === current) await showContent(index, content);
    if (byId("status").textContent.startsWith("Reading")) say("");
  } catch (error) {
    if (wanted === current) showProblem(error instanceof TypeError ? ENDED : error.message);
  } finally {
    clearTimeout(waiting);
    if (wanted === current) byId("case").setAttribute("aria-busy", "false");
  }
}
function keepInView(list, button) {
  const top = button.offsetTop - list.offsetTop;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + button.offsetHeight > list.scrollTop + list.clientHeight)
    list.scrollTop = top + button.offsetHeight - list.clientHeight;
}
function clearViews() {
  source = null;
  for (const name of ["view-given", "view-suggested", "view-second", "view-third"]) {
    const canvas = byId(name);
    canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
  }
}
function hideCase() {
  drawn = source = null;
  for (const name of ["views", "view-controls", "first-look", "mending", ...DECIDING]) byId(name).hidden = true;
  leaveDrawing();
}
function showProblem(text) {
  byId("case-problem").textContent = `This case cannot be shown: ${text}`;
  byId("case-problem").hidden = false;
  hideCase();
}
function showFindings() {
  const one = caseNow();
  byId("findings").replaceChildren(...one.findings.map((finding, index) => {
    const facts = element("span", { class: "facts" }, ...finding.facts.map(([name, value]) =>
      element("span", { text: `${name} ${value}` })));
    if (one.annotators.length) facts.append(element("span", { text: `Annotator ${one.annotators.join(", ")}` }));
    const decision = decisions.get(finding.id);
    const head = element("span", { class: "head" }, element("strong", { text: finding.title }));
    if (decision) head.append(element("span", { class: `decision ${decision.choice}`,
      text: wordOf(finding, decision.choice) + (decision.reviewer ? ` by ${decision.reviewer}` : "") }));
    const button = element("button", { type: "button", class: "finding" }, head,
      ...(finding.sentence ? [element("span", { text: finding.sentence }), element("br")] : []), facts);
    if (decision?.reason) button.append(element("br"), element("span", { class: "said", text: `“${decision.reason}”` }));
    if (index === current.finding) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => select(current.position, index).then(() =>
      byId("findings").querySelector("[aria-current]").focus()));
    return element("li", {}, button);
  }));
  const marked = byId("findings").querySelector("[aria-current]");
  if (marked) keepInView(byId("findings"), marked);
  const finding = findingNow(), choice = finding && choiceOf(finding);
  if (finding) nameButtons(finding);
  byId("accept").disabled = !finding?.canAccept;
  byId("accept").title = finding?.canAccept ? "" : "Nothing is suggested for this finding.";
  for (const name of ["accept", "keep", "later"]) byId(name).setAttribute("aria-pressed", String(choice === name));
}
let isBlindAsked = false;
function sourceOf(index, content) {
  content.source ||= served ? servedSource(index, content) : writtenSource(content);
  return content.source;
}
async function showContent(index, content) {
  if (content.problem) { showProblem(content.problem); return; }
  byId("case-problem").hidden = true;
  const hasImages = served || content.images.length > 0;
  for (const name of ["views", "view-controls"]) byId(name).hidden = !hasImages;
  if (content.blindFirst && !isBlindAsked) isBlindAsked = byId("blind").checked = true;
  if (hasImages) {
    const wanted = current, own = sourceOf(index, content);
    await useSameChannel(own);
    if (wanted !== current) return;
    await showInViewer(index, own, current.finding);
    if (wanted !== current) return;
  }
  // From here on it is to be seen, and can be decided.
  drawn = { index, content };
  showDeciding();
  if (!hasImages) return;
  nameViews();
  view.onShown?.();
  // The next case, while this one is looked at.
  const following = shownCases[current.position + 1];
  if (served && following !== undefined) prefetch(following).catch(() => {});
}
function showDeciding() {
  for (const name of DECIDING) byId(name).hidden = !findingNow() || isBlind() || (state.shared && name !== "decide");
}
async function prefetch(index) {
  const content = await contentOf(index);
  if (content.problem) return;
  const { axis, findings, plane: first, hasMasks, hasPrediction } = content, number = findings[0]?.plane ?? first;
  if (!hasMasks) return;
  const layers = ["given", ...(hasPrediction ? ["predicted"] : []), ...(findings[0]?.hasSuggestion ? ["suggested"] : [])];
  for (const layer of layers) {
    const key = maskKeyOf(index, content, layer, 0, axis, number);
    masks.get(key, () => sourceOf(index, content).mask(layer, 0, axis, number), () => {}, () => {});
    await masks.promise(key);
  }
}
// For those who hear the page.
function nameViews() {
  const finding = findingNow(), name = baseName(caseNow().image), what = finding ? `: ${finding.sentence || finding.title}` : "";
  const where = view.grid.planes > 1 ? `, slice ${plane + 1}` : "";
  const classes = finding ? finding.classes.join(" → ") : "";
  byId("view-given").setAttribute("aria-label", `${name} as given${where}${isBlind() ? "" : what}`);
  byId("view-suggested").setAttribute("aria-label", `${name} as suggested${where}`);
  byId("view-second").setAttribute("aria-label", `${name}, ${AXES[otherAxes()[0]] || ""}`);
  byId("view-third").setAttribute("aria-label", `${name}, ${AXES[otherAxes()[1]] || ""}`);
  byId("caption-second").textContent = AXES[otherAxes()[0]] || "";
  byId("caption-third").textContent = AXES[otherAxes()[1]] || "";
  byId("caption-given").textContent = finding && finding.newClass !== null && !isBlind()
    ? `Given: ${caseNow().label}. Looks like: ${finding.newClass}.` : `As given${classes ? `: ${classes}` : ""}`;
}
const AXES = ["Sagittal", "Coronal", "Axial"];
