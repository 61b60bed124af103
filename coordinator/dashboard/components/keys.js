/** The dialog that makes an API key, and shows it once. */

import { apiKey, makeKey } from "../api.js";
import { openDialog } from "./dialog.js";
import { button, fill, h, uniqueId } from "./dom.js";
import { toast } from "./notice.js";

const DAY_S = 86_400;
const ACTIONS = [
  ["search", "search and read items"],
  ["write", "add, change and delete items"],
  ["configure", "create, configure and remove indexes"],
  ["admin", "keys, snapshots, aliases, statistics"],
];
const LIFETIMES = [
  ["", "never"],
  [String(DAY_S), "in a day"],
  [String(30 * DAY_S), "in 30 days"],
  [String(365 * DAY_S), "in a year"],
];

/** @param {{isFirst: boolean, indexes: string[], onDone: Function}} options */
export function keyDialog({ isFirst, indexes, onDone }) {
  const description = h("input", {
    type: "text",
    maxlength: "500",
    autocomplete: "off",
    placeholder: "Who or what uses it",
    autofocus: true,
  });
  const actions = ACTIONS.map(([action, text]) => {
    const input = h("input", {
      type: "checkbox",
      value: action,
      checked: isFirst || action === "search",
      disabled: isFirst && action === "admin",
    });
    const label = h(
      "label",
      { class: "check" },
      input,
      h("span", {}, h("strong", {}, action), h("span", { class: "muted" }, ` ${text}`)),
    );
    return { input, label };
  });
  const listId = uniqueId("indexes");
  const patterns = h("input", {
    type: "text",
    value: "*",
    required: true,
    spellcheck: "false",
    autocomplete: "off",
    list: listId,
    readonly: isFirst,
  });
  const expires = h(
    "select",
    {},
    LIFETIMES.map(([value, text]) => h("option", { value }, text)),
  );
  const filter = h("input", {
    type: "text",
    spellcheck: "false",
    autocomplete: "off",
    placeholder: "tenant = 7",
    disabled: isFirst,
  });
  const problem = h("p", { class: "field-error", role: "alert" });
  const submit = h("button", { type: "submit", class: "button primary" }, "Create the key");
  const field = (text, control, hint) =>
    h(
      "label",
      { class: "field" },
      h("span", {}, text),
      control,
      hint && h("span", { class: "small muted" }, hint),
    );

  const make = async () => {
    submit.disabled = true;
    problem.textContent = "";
    try {
      const made = await makeKey({
        actions: actions.filter(({ input }) => input.checked).map(({ input }) => input.value),
        indexes: patterns.value
          .split(",")
          .map((pattern) => pattern.trim())
          .filter(Boolean),
        ...(description.value.trim() ? { description: description.value.trim() } : {}),
        ...(expires.value ? { expires_in_seconds: Number(expires.value) } : {}),
        ...(filter.value.trim() ? { filter: filter.value.trim() } : {}),
      });
      if (isFirst) apiKey.set(made.key);
      show(made.key);
      onDone();
    } catch (error) {
      problem.textContent = error.message;
      submit.disabled = false;
    }
  };

  const show = (key) => {
    const shown = h("textarea", { class: "code whole-key", rows: "2", readonly: true }, key);
    fill(
      place,
      h("p", {}, "This is the only time that it is shown. Keep it where it is safe."),
      field("API key", shown),
      isFirst &&
        h(
          "p",
          { class: "small muted" },
          "From now on the service needs a key; this tab uses this one.",
        ),
      h(
        "div",
        { class: "dialog-actions" },
        button("Copy", {
          iconName: "copy",
          onclick: async () => {
            shown.select();
            try {
              await navigator.clipboard.writeText(key);
              toast("The key is in the clipboard");
            } catch {
              toast("Press Ctrl + C to copy it");
            }
          },
        }),
        button("Done", { kind: "primary", onclick: () => dialog.close() }),
      ),
    );
    shown.focus();
    shown.select();
  };

  const place = h(
    "form",
    {
      class: "dialog-body",
      onsubmit: (event) => {
        event.preventDefault();
        make();
      },
    },
    isFirst &&
      h(
        "p",
        { class: "muted" },
        "The first key must allow everything on all indexes; it makes the others.",
      ),
    field("Description", description),
    h(
      "fieldset",
      {},
      h("legend", {}, "It may"),
      actions.map(({ label }) => label),
    ),
    field("On the indexes", patterns, "Names, with * for any text; several with commas."),
    h(
      "datalist",
      { id: listId },
      indexes.map((name) => h("option", { value: name })),
    ),
    h(
      "div",
      { class: "field-pair" },
      field("Expires", expires),
      field("Only items that match", filter, "A filter that is added to every search."),
    ),
    problem,
    h(
      "div",
      { class: "dialog-actions" },
      button("Cancel", { onclick: () => dialog.close() }),
      submit,
    ),
  );
  const dialog = openDialog("Create an API key", () => [place]);
}
