/** What the service proposes for an index: facets to choose from, and one button that applies them. */

import { mergeConfiguration, proposal } from "../api.js";
import { count, plainNumber } from "../format.js";
import { openDialog } from "./dialog.js";
import { button, fill, h } from "./dom.js";
import { errorNotice, toast } from "./notice.js";

const EXAMPLES_SHOWN = 3;

/**
 * The proposal for an index as a form, or null if the service proposes nothing.
 *
 * @param {string} index
 * @param {{onApplied: Function, onSkipped: Function, skipLabel: string}} options
 */
export async function proposalForm(index, { onApplied, onSkipped, skipLabel }) {
  const { configuration, fields } = await proposal(index);
  if (Object.keys(configuration).length === 0) return null;
  const byName = new Map(fields.map((field) => [field.name, field]));
  const choices = Object.entries(configuration.aggregations ?? {}).map(([name, settings]) => ({
    name,
    settings,
    input: h("input", { type: "checkbox", checked: true }),
  }));
  const { searchable_fields: searched, geo_fields: places, display } = configuration;
  const problem = h("div", { class: "messages" });
  const submit = h("button", { type: "submit", class: "button primary", autofocus: true }, "Apply");
  const apply = async () => {
    const chosen = choices.filter(({ input }) => input.checked);
    const settings = structuredClone(configuration);
    delete settings.aggregations;
    for (const { name, input } of choices) if (!input.checked) delete settings.hierarchies?.[name];
    if (chosen.length > 0)
      settings.aggregations = Object.fromEntries(chosen.map((one) => [one.name, one.settings]));
    submit.disabled = true;
    submit.textContent = "Applying…";
    try {
      await mergeConfiguration(index, settings);
    } catch (error) {
      fill(problem, errorNotice(error));
      submit.disabled = false;
      submit.textContent = "Apply";
      return;
    }
    toast(`Configured ${index}`);
    onApplied();
  };
  return h(
    "form",
    {
      class: "proposal",
      onsubmit: (event) => {
        event.preventDefault();
        apply();
      },
    },
    choices.length > 0 &&
      h(
        "fieldset",
        {},
        h("legend", {}, "Facets that fit these items"),
        h(
          "ul",
          { class: "proposal-facets" },
          choices.map(({ name, input }) =>
            h(
              "li",
              {},
              h(
                "label",
                { class: "check" },
                input,
                h("span", { class: "proposal-name" }, name),
                h("span", { class: "small muted" }, describe(byName.get(name))),
              ),
            ),
          ),
        ),
      ),
    places && h("p", { class: "small muted" }, "Places, for a map: ", places.join(", ")),
    display && h("p", { class: "small muted" }, "Pictures: ", display.image),
    searched &&
      h(
        "p",
        { class: "small muted" },
        "Searched: ",
        searched.map((field) => field.replace(/\^.*/, " (first)")).join(", "),
      ),
    problem,
    h("div", { class: "dialog-actions" }, button(skipLabel, { onclick: onSkipped }), submit),
  );
}

/** "15 values: eng, en-US, en-GB"; "numbers from 1 to 3,455"; "dates from 2001-02-03 to 2009-08-07". */
function describe(field) {
  if (!field) return "";
  if (field.kind === "number" && field.role === "range")
    return `numbers from ${plainNumber(field.min)} to ${plainNumber(field.max)}`;
  if (field.kind === "date" && field.role === "range")
    return `dates from ${field.min} to ${field.max}`;
  const examples = field.examples.slice(0, EXAMPLES_SHOWN).join(", ");
  const form = field.role === "tree" ? "a tree, " : field.is_list ? "lists, " : "";
  return `${form}${count(field.values)} values: ${examples}`;
}

/** The proposal in a dialog of its own. */
export async function proposalDialog(index, onDone) {
  const place = h(
    "div",
    { class: "dialog-body" },
    h("p", { class: "muted" }, "Looking at the items…"),
  );
  const dialog = openDialog(`Facets for ${index}`, () => [place]);
  const close = () => dialog.close();
  try {
    const form = await proposalForm(index, {
      skipLabel: "Cancel",
      onSkipped: close,
      onApplied: () => {
        close();
        onDone();
      },
    });
    fill(
      place,
      form ?? h("p", {}, "No field has values that repeat, so there is nothing to propose."),
    );
    form?.querySelector("[type=submit]").focus();
  } catch (error) {
    fill(place, errorNotice(error));
  }
}
