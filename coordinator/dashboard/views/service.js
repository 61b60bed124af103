/** What belongs to the service as a whole: API keys, aliases of indexes, snapshots. */

import * as api from "../api.js";
import { confirmLoss, openDialog } from "../components/dialog.js";
import { button, fill, h } from "../components/dom.js";
import { keyDialog } from "../components/keys.js";
import { errorNotice, toast } from "../components/notice.js";
import { createSheet } from "../components/sheet.js";
import { bytes, plural, timeOfDay } from "../format.js";
import { searchPath } from "../paths.js";

const OPEN = "As long as there is no key, everybody who reaches the service may do anything.";
const CLOSED = "Every request needs one of these keys. A key is shown once, when it is made.";

export function serviceView() {
  const controller = new AbortController();
  let indexes = [];
  const keys = createSheet({
    title: "API keys",
    text: "",
    columns: ["Key", "May", "Indexes", "Only items", "Expires"],
    action: button("Create a key", {
      iconName: "plus",
      onclick: () => keyDialog({ isFirst: numKeys === 0, indexes, onDone: drawKeys }),
    }),
    nothing: "No key yet.",
  });
  const aliases = createSheet({
    title: "Aliases",
    text: "Names that stand for an index, so that another one can take its place at once.",
    columns: ["Alias", "Index"],
    action: button("Create an alias", { iconName: "plus", onclick: () => aliasDialog() }),
    nothing: "No alias yet.",
  });
  const snapshots = createSheet({
    title: "Snapshots",
    text: "Copies of all indexes as of one moment; writes go on meanwhile.",
    columns: ["Snapshot", "Made", "Size", "Indexes"],
    action: button("Make a snapshot", { iconName: "plus", onclick: () => snapshotDialog() }),
    nothing: "No snapshot yet.",
  });
  let numKeys = null;
  const element = h(
    "div",
    { class: "page" },
    h("header", { class: "page-head" }, h("h1", {}, "Service")),
    keys.element,
    aliases.element,
    snapshots.element,
  );

  /** Fills one sheet; what fails says so in its place, and the others stay: returns the error. */
  async function drawInto(sheet, read) {
    try {
      sheet.draw(await read());
      fill(sheet.problem);
      return null;
    } catch (error) {
      if (error.name !== "AbortError") fill(sheet.problem, errorNotice(error, { retry: drawAll }));
      return error;
    }
  }

  const drawKeys = () =>
    drawInto(keys, async () => {
      const found = await api.listKeys(controller.signal);
      numKeys = found.length;
      keys.say(numKeys === 0 ? OPEN : CLOSED);
      return found.map(keyRow);
    });

  const drawAliases = () =>
    drawInto(aliases, async () => {
      const [found, listed] = await Promise.all([
        api.listAliases(controller.signal),
        api.listIndexes(controller.signal),
      ]);
      indexes = listed.map((entry) => entry.name).sort();
      return Object.entries(found).map(aliasRow);
    });

  const drawSnapshots = () =>
    drawInto(snapshots, async () => {
      const found = await api.listSnapshots(controller.signal);
      return found.reverse().map(snapshotRow);
    });

  // --- rows ----------------------------------------------------------------------------------------

  const tags = (texts) =>
    h(
      "ul",
      { class: "tags" },
      texts.map((text) => h("li", { class: "tag" }, text)),
    );

  const rowAction = (label, iconName, onclick) =>
    button(label, { iconName, isIconOnly: true, kind: "quiet", onclick });

  function keyRow(key) {
    const isOver = key.expires_at !== null && new Date(key.expires_at) < new Date();
    const name = key.description || key.id;
    const id = h("code", { class: "code muted key-id" }, key.id);
    return [
      key.description ? [key.description, " ", id] : id,
      tags(key.actions),
      tags(key.indexes.map((pattern) => (pattern === "*" ? "all" : pattern))),
      key.filter ? h("code", { class: "code" }, key.filter) : "all",
      key.expires_at === null ? "never" : `${timeOfDay(key.expires_at)}${isOver ? " (over)" : ""}`,
      rowAction(`Delete the key ${name}`, "trash", () =>
        confirmLoss({
          title: "Delete this key?",
          text: `Whoever uses “${name}” is refused from now on.${numKeys === 1 ? ` It is the last key. ${OPEN}` : ""}`,
          action: "Delete",
          act: async () => {
            await api.deleteKey(key.id);
            toast("The key is deleted");
            drawKeys();
          },
        }),
      ),
    ];
  }

  function aliasRow([alias, index]) {
    return [
      h("a", { href: searchPath(alias) }, alias),
      index,
      [
        rowAction(`Change the alias ${alias}`, "edit", () => aliasDialog(alias, index)),
        rowAction(`Remove the alias ${alias}`, "trash", () =>
          confirmLoss({
            title: "Remove this alias?",
            text: `“${alias}” names no index any more; the index ${index} stays.`,
            action: "Remove",
            act: async () => {
              await api.changeAliases({ [alias]: null });
              drawAliases();
            },
          }),
        ),
      ],
    ];
  }

  function snapshotRow(snapshot) {
    return [
      snapshot.name,
      timeOfDay(snapshot.created_at),
      bytes(snapshot.bytes),
      tags(snapshot.indexes.map((index) => index.name)),
      [
        rowAction(`Restore from ${snapshot.name}`, "undo", () => restoreDialog(snapshot)),
        rowAction(`Remove the snapshot ${snapshot.name}`, "trash", () =>
          confirmLoss({
            title: "Remove this snapshot?",
            text: `${bytes(snapshot.bytes)} of ${timeOfDay(snapshot.created_at)} will be gone.`,
            action: "Remove",
            mustType: snapshot.name,
            act: async () => {
              await api.removeSnapshot(snapshot.name);
              drawSnapshots();
            },
          }),
        ),
      ],
    ];
  }

  // --- dialogs -------------------------------------------------------------------------------------

  function aliasDialog(alias = "", index = indexes[0] ?? "") {
    const name = h("input", {
      type: "text",
      value: alias,
      required: true,
      readonly: alias !== "",
      maxlength: "64",
      spellcheck: "false",
      autocomplete: "off",
      autofocus: alias === "",
    });
    const target = h(
      "select",
      { autofocus: alias !== "" },
      indexes.map((other) => h("option", { value: other }, other)),
    );
    target.value = index;
    formDialog({
      title: alias ? `Change the alias ${alias}` : "Create an alias",
      fields: [labelled("Alias", name), labelled("Stands for the index", target)],
      action: alias ? "Save" : "Create",
      act: async () => {
        await api.changeAliases({ [name.value.trim()]: target.value });
        drawAliases();
      },
    });
  }

  function snapshotDialog() {
    const name = h("input", {
      type: "text",
      value: `dashboard-${new Date().toISOString().slice(0, 16).replaceAll(/\D+/g, "-")}`,
      required: true,
      spellcheck: "false",
      autocomplete: "off",
      autofocus: true,
    });
    formDialog({
      title: "Make a snapshot",
      fields: [labelled("Name", name)],
      action: "Make it",
      act: async () => {
        const made = await api.makeSnapshot(name.value.trim());
        toast(`${bytes(made.bytes)} in ${made.directory}`);
        drawSnapshots();
      },
    });
  }

  function restoreDialog(snapshot) {
    const source = h(
      "select",
      { autofocus: true, onchange: () => (name.value = freeName(source.value)) },
      snapshot.indexes.map((index) => h("option", { value: index.name }, index.name)),
    );
    const name = h("input", {
      type: "text",
      required: true,
      maxlength: "64",
      spellcheck: "false",
      value: freeName(snapshot.indexes[0]?.name ?? ""),
    });
    formDialog({
      title: `Restore from ${snapshot.name}`,
      fields: [
        labelled("Index in the snapshot", source),
        labelled("As a new index called", name),
        h("p", { class: "small muted" }, "What is there now stays as it is."),
      ],
      action: "Restore",
      act: async () => {
        await api.restoreSnapshot(snapshot.name, source.value, name.value.trim());
        toast(`Restored ${name.value.trim()}`);
        drawAliases();
      },
    });
  }

  function freeName(wanted) {
    let name = wanted;
    for (let number = 1; indexes.includes(name); number += 1) name = `${wanted}-restored-${number}`;
    return name;
  }

  /** Draws all sheets; if no key was entered, the others would only ask for it again. */
  async function drawAll() {
    const error = await drawKeys();
    if (error?.status !== 401) await Promise.all([drawAliases(), drawSnapshots()]);
  }

  drawAll();
  return { element, title: "Service", close: () => controller.abort() };
}

function labelled(text, control) {
  return h("label", { class: "field" }, h("span", {}, text), control);
}

/** A dialog of some fields and one action; its error is shown in it. */
function formDialog({ title, fields, action, act }) {
  const problem = h("p", { class: "field-error", role: "alert" });
  const submit = h("button", { type: "submit", class: "button primary" }, action);
  openDialog(title, (close) => [
    h(
      "form",
      {
        class: "dialog-body",
        onsubmit: async (event) => {
          event.preventDefault();
          submit.disabled = true;
          problem.textContent = "";
          try {
            await act();
            close();
          } catch (error) {
            problem.textContent = error.message;
            submit.disabled = false;
          }
        },
      },
      fields,
      problem,
      h("div", { class: "dialog-actions" }, button("Cancel", { onclick: close }), submit),
    ),
  ]);
}
