"use strict";
(async () => {
const KEPT = "fedannot review";
const LAST = "Open the address that the command has printed last.";
const code = (/^#([\w-]{43,})$/.exec(location.hash) || [])[1];
// The code has no business in the address bar or in the history.
history.replaceState(null, "", "/");
addEventListener("hashchange", () => location.reload());
async function answered(path, options) {
  const answer = await fetch(path, { ...options, cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.json()).problem);
  return answer;
}
try {
  if (code) {
    const answer = await answered("/session", { method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ code }) });
    // Of this tab alone, and of this port alone: cookies would be sent to every port of this machine.
    sessionStorage.setItem(KEPT, (await answer.json()).token);
  }
  const token = sessionStorage.getItem(KEPT);
  if (!token) throw new Error(LAST);
  const page = await (await answered("/page", { headers: { "X-Review-Token": token } })).text();
  document.open();
  document.write(page);
  document.close();
} catch (error) {
  document.getElementById("problem").textContent = error instanceof TypeError
    ? "The command that serves this review has ended. Start it again; what was stored before is kept." : error.message;
}
})();
