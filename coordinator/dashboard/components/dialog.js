/** Modal dialogs on the native element: focus is trapped and given back by the browser. */

import { button, fill, h, uniqueId } from "./dom.js";

/**
 * Opens a modal dialog.
 *
 * @param {string} title shown and read out
 * @param {(close: () => void) => Node[]} build makes the content
 * @returns {HTMLDialogElement} removed from the page when it is closed
 */
export function openDialog(title, build, { kind = "", onClose } = {}) {
  const titleId = uniqueId("dialog");
  const dialog = h("dialog", { class: `dialog ${kind}`.trim(), "aria-labelledby": titleId });
  const toasts = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
  const close = () => dialog.close();
  fill(
    dialog,
    h(
      "header",
      { class: "dialog-head" },
      h("h2", { id: titleId }, title),
      button("Close", { iconName: "close", isIconOnly: true, kind: "quiet", onclick: close }),
    ),
    build(close),
    toasts,
  );
  dialog.addEventListener("close", () => {
    document.getElementById("toasts").append(...toasts.children);
    dialog.remove();
    onClose?.();
  });
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector("[autofocus]")?.focus();
  keepAlertsInSight(dialog);
  return dialog;
}

/** Scrolls to what goes wrong: a long dialog may say it far from the button that was pressed. */
function keepAlertsInSight(dialog) {
  const said = new WeakMap();
  const look = () => {
    for (const alert of dialog.querySelectorAll("[role=alert]")) {
      const text = alert.textContent;
      if (text && said.get(alert) !== text) alert.scrollIntoView({ block: "nearest" });
      said.set(alert, text);
    }
  };
  new MutationObserver(look).observe(dialog, { childList: true, characterData: true, subtree: true });
}

/**
 * Asks before something is lost. With `mustType`, the button stays off until that text is typed.
 * `act` may fail; its error is shown in the dialog, which then stays open.
 */
export function confirmLoss({ title, text, action, mustType = null, act }) {
  const problem = h("p", { class: "field-error", role: "alert" });
  const confirm = h(
    "button",
    { type: "submit", class: "button danger", disabled: mustType !== null },
    action,
  );
  const typed =
    mustType === null
      ? null
      : h("input", {
          type: "text",
          autocomplete: "off",
          spellcheck: "false",
          autofocus: true,
          oninput: (event) => (confirm.disabled = event.target.value !== mustType),
        });
  openDialog(title, (close) => [
    h(
      "form",
      {
        class: "dialog-body",
        onsubmit: async (event) => {
          event.preventDefault();
          confirm.disabled = true;
          try {
            await act();
            close();
          } catch (error) {
            problem.textContent = error.message;
            confirm.disabled = false;
          }
        },
      },
      h("p", {}, text),
      typed &&
        h(
          "label",
          { class: "field" },
          h("span", {}, "To confirm, type ", h("strong", {}, mustType)),
          typed,
        ),
      problem,
      h("div", { class: "dialog-actions" }, button("Cancel", { onclick: close }), confirm),
    ),
  ]);
}
