/** The dialog that creates an index, or changes the configuration of one. */

import { configurationText, configure, indexStats, parseJson, toJson } from "../api.js";
import { createConfigurationEditor } from "./configuration_editor.js";
import { openDialog } from "./dialog.js";
import { button, fill, h, uniqueId } from "./dom.js";
import { toast } from "./notice.js";
import { createPreview } from "./preview.js";

const NEW_CONFIGURATION = { aggregations: {}, searchable_fields: [] };

/**
 * Opens the dialog that creates (`isNew`) or changes an index.
 *
 * @param {{name?: string, isNew?: boolean, onDone: (name: string) => void}} options
 */
export function configureDialog({ name = "", isNew = false, onDone }) {
  const nameInput = h("input", {
    type: "text",
    value: name,
    required: true,
    maxlength: "64",
    autocomplete: "off",
    spellcheck: "false",
    "data-path": "index",
    autofocus: name === "",
  });
  const place = h(
    "div",
    { class: "configuration" },
    h("p", { class: "muted", role: "status" }, "Reading…"),
  );
  const submit = h(
    "button",
    { type: "submit", class: "button primary", disabled: true },
    isNew ? "Create index" : "Save",
  );
  let editor = null;

  const start = async () => {
    const [text, fields] = await Promise.all([
      isNew ? toJson(NEW_CONFIGURATION) : configurationText(name),
      isNew
        ? []
        : indexStats(name)
            .then((stats) => stats.fields.map((field) => field.name))
            .catch(() => []),
    ]);
    editor = createConfigurationEditor(text, fields);
    const preview =
      !isNew &&
      createPreview(name, {
        saved: parseJson(text),
        draft: editor.draft,
        onLeave: () => dialog.close(),
      });
    fill(place, editor.element, preview && preview.element);
    if (preview)
      for (const type of ["input", "change", "click"])
        editor.element.addEventListener(type, preview.update);
    submit.disabled = false;
  };

  const save = async (close) => {
    editor.clearErrors();
    nameError.textContent = "";
    const text = editor.text();
    if (text === null) return;
    submit.disabled = true;
    const wanted = isNew ? nameInput.value.trim() : name;
    try {
      const answer = await configure(wanted, text);
      close();
      const warnings = (answer.warnings ?? []).map((warning) => warning.message ?? warning);
      toast(
        warnings.length > 0
          ? `Saved. ${warnings.join(" ")}`
          : isNew
            ? `Created ${wanted}`
            : `Saved the configuration of ${wanted}`,
        { stays: warnings.length > 0 },
      );
      onDone?.(wanted);
    } catch (error) {
      if (isNew && (error.param === "index" || error.code === "invalid_index_name")) {
        nameError.textContent = error.message;
        nameInput.focus();
      } else editor.showError(error);
    }
    submit.disabled = false;
  };

  const nameErrorId = uniqueId("error");
  const nameError = h("span", { class: "field-error", id: nameErrorId, role: "alert" });
  nameInput.setAttribute("aria-describedby", nameErrorId);
  const dialog = openDialog(
    isNew ? "Create an index" : `Configure ${name}`,
    (close) => [
      h(
        "form",
        {
          class: "dialog-body",
          onsubmit: (event) => {
            event.preventDefault();
            save(close);
          },
        },
        isNew && h("label", { class: "field" }, h("span", {}, "Name"), nameInput, nameError),
        place,
        h("div", { class: "dialog-actions" }, button("Cancel", { onclick: close }), submit),
      ),
    ],
    { kind: "wide" },
  );
  start().catch((error) =>
    fill(place, h("p", { class: "field-error", role: "alert" }, error.message)),
  );
}
