/** Copies a text, or shows it where the browser refuses: it allows copying only on HTTPS and on this machine. */

import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { toast } from "./notice.js";

/** @param {{name: string, done: string}} options what the text is, and what to say once it is copied */
export async function copyText(text, { name, done }) {
  try {
    await navigator.clipboard.writeText(text);
    toast(done);
  } catch {
    const area = h(
      "textarea",
      { class: "code", rows: "10", readonly: true, autofocus: true, "aria-label": name },
      text,
    );
    openDialog(`Copy this ${name.toLowerCase()}`, () => [h("div", { class: "dialog-body" }, area)], {
      kind: "wide",
    });
    area.select();
  }
}
