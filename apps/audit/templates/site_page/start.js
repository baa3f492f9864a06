// The start.
// A further address in the same tab is opened, as it would be in another one.
if (served) addEventListener("hashchange", () => { if (location.hash.length > 40) location.reload(); });
byId("review-bar").hidden = !state.cases.length || state.shared;
for (const name of ["accept", "keep", "later", "undo"]) byId(name).hidden = state.shared;
byId("reviewer-field").hidden = served;
byId("download").hidden = served;
byId("reviewing").textContent = served ? `Reviewing as ${state.reviewer}; every decision is stored at once.${state.blind ? " The decisions of others are hidden." : ""}`
  : "Decisions are kept in this browser until you download them.";
if (!served && !state.shared) takeFromBrowser();
takeActions(state.actions);
fillFilters();
showAbsent();
showProgress();
drawPlot();
if (state.cases.length) { showList(); select(0, 0); } else {
  byId("filters").hidden = true;
  showNothing();
  byId("case-title").textContent = "There is no case.";
}
