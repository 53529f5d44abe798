"use strict";
// A link to a group opens it.
(() => {
  function open() {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  }
  window.addEventListener("hashchange", open);
  open();
})();
// Filters and sorts the groups; without JavaScript all are there, the largest savings first.
(() => {
  const form = document.querySelector("form.filter");
  if (!form) return;
  const groups = [...document.querySelectorAll("#groups > details")];
  const orders = {
    moved: (one, other) => other.dataset.moved - one.dataset.moved,
    paused: (one, other) => other.dataset.paused - one.dataset.paused,
    name: (one, other) => one.dataset.name.localeCompare(other.dataset.name),
  };
  function show() {
    const has = form.elements.has.value.toLowerCase();
    const order = orders[form.elements.by.value];
    const shown = groups.filter((group) => group.dataset.name.toLowerCase().includes(has));
    for (const group of groups) group.hidden = !shown.includes(group);
    for (const group of order ? [...groups].sort(order) : groups) group.parentElement.append(group);
    form.querySelector("output").value = has ? `${shown.length} of ${groups.length}` : "";
  }
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
})();
