/** What the page says when there is nothing to show, when something failed, and when something is done. */

import { button, h, icon, refill } from "./dom.js";

const TOAST_MS = 4000;
const TOAST_MS_PER_CHARACTER = 60;

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

/**
 * Shows what failed in a place of its own, unless it is shown there already: a page that asks again
 * by itself leaves the focus on the notice, and has it read out once.
 *
 * @returns {boolean} whether it is new
 */
export function showError(place, error, { retry, ...options } = {}) {
  const said = [error.code, error.param, error.message].join("\n");
  if (place.firstElementChild?.dataset.said === said) return false;
  const again = () => {
    delete notice.dataset.said; // who asks for it is told again
    retry();
  };
  const notice = errorNotice(error, { ...options, retry: retry && again });
  notice.dataset.said = said;
  refill(place, notice);
  return true;
}

/** A remark that is not a failure: text, and perhaps a control within it. */
export function remark(...parts) {
  return h("div", { class: "notice", role: "status" }, h("p", { class: "notice-text" }, parts));
}

/**
 * A short message at the edge of the page, read out politely; what `stays` does so until it is closed.
 * It is part of the open dialog, if there is one: beside that, nothing is seen, pressed or read out.
 */
export function toast(text, { stays = false } = {}) {
  const message = h("div", { class: "toast" }, h("p", {}, text));
  const close = () => message.remove();
  if (stays)
    message.append(button("Close", { iconName: "close", isIconOnly: true, kind: "quiet", onclick: close }));
  else setTimeout(close, Math.max(TOAST_MS, text.length * TOAST_MS_PER_CHARACTER));
  const inDialog = [...document.querySelectorAll("dialog[open] > .toasts")].at(-1);
  (inDialog ?? document.getElementById("toasts")).append(message);
}
