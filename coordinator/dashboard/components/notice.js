/** What the page says when there is nothing to show, when something failed, and when something is done. */

import { button, h, icon } from "./dom.js";

const TOAST_MS = 4000;

/** An empty state: what this place is for, and what to do next. */
export function emptyState(iconName, title, text, ...actions) {
  return h(
    "div",
    { class: "empty" },
    h("span", { class: "empty-icon" }, icon(iconName)),
    h("h2", {}, title),
    h("p", {}, text),
    actions.length > 0 && h("div", { class: "actions" }, actions),
  );
}

/** What happened, where, and what can be done about it. */
export function errorNotice(error, { retry, actions = [] } = {}) {
  const details = [
    error.code,
    error.param && `at ${error.param}`,
    error.requestId && `request ${error.requestId}`,
  ];
  return h(
    "div",
    { class: "notice error", role: "alert" },
    icon("alert"),
    h(
      "div",
      { class: "notice-text" },
      h("p", {}, error.message),
      error.code && h("p", { class: "small muted" }, details.filter(Boolean).join(" · ")),
    ),
    h("div", { class: "actions" }, actions, retry && button("Try again", { onclick: retry })),
  );
}

/** A remark that is not a failure: text, and perhaps a control within it. */
export function remark(...parts) {
  return h("div", { class: "notice", role: "status" }, h("p", { class: "notice-text" }, parts));
}

/** A short message at the edge of the page, read out politely. */
export function toast(text) {
  const message = h("p", { class: "toast" }, text);
  document.getElementById("toasts").append(message);
  setTimeout(() => message.remove(), TOAST_MS);
}
