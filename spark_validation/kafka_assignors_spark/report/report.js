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
