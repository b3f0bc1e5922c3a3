// Writes docs/reference/javascript.md from the types: node clients/javascript/reference.mjs

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const file = (name) => new URL(name, import.meta.url);
const about = "Every member of an object is read-only. `node clients/javascript/reference.mjs` writes this page from the package's types.";
const pages = {
  "javascript.md": {
    title: "JavaScript reference: the client",
    text: `This page is for developers of an app in [JavaScript or TypeScript](../javascript.md): \`countersign\` of the package. The other
imports have [a page of their own](javascript-modules.md). ${about}`,
    modules: { countersign: "countersign" },
  },
  "javascript-modules.md": {
    title: "JavaScript reference: trials, paywalls, React, Expo",
    text: `This page is for developers of an app in [JavaScript or TypeScript](../javascript.md): what the package has beside
[the client](javascript.md). \`countersign/react\` has the hooks for React itself. ${about}`,
    modules: {
      trials: "countersign/trials", hooks: "countersign/hooks", paywall: "countersign/paywall", expo: "countersign/expo",
      preview: "countersign/preview", server: "countersign/server",
    },
  },
};

const joined = (comment) => comment.map((line) => line.replace(/^\s*\/?\*+\/?\s?|\s*\*\/$/g, "")).join(" ").replace(/\s+/g, " ").trim();
const code = (text) => `\`${text.replace(/^readonly |(\s)readonly /g, "$1").replace(/\s+/g, " ").replace(/;$/, "").trim()}\``;

/** Declarations with the comment before each, and the members of an interface with theirs. */
function* declarations(text) {
  let comment = [], lines = [], depth = 0, inComment = false;
  for (const line of text.split("\n")) {
    if (!depth && !lines.length) {
      if (inComment || /^\/\*\*/.test(line)) {
        comment = inComment ? [...comment, line] : [line];
        inComment = !line.includes("*/");
        continue;
      }
      if (/^(import|export (type )?\{)/.test(line) || !line.trim()) {
        if (!line.trim() && !/^export/.test(line)) continue;
        comment = [];
        continue;
      }
    }
    lines.push(line);
    const bare = line.replace(/\/\*.*?\*\//g, "");
    depth += (bare.match(/[{(]/g) ?? []).length - (bare.match(/[})]/g) ?? []).length;
    if (depth || !/[;}]$/.test(line)) continue;
    yield { comment: joined(comment), lines };
    [comment, lines] = [[], []];
  }
}

function* members(lines) {
  let comment = [], member = [], depth = 0, inComment = false;
  for (const line of lines) {
    if (!depth && (inComment || /^\s*\/\*\*/.test(line))) {
      comment = inComment ? [...comment, line] : [line];
      inComment = !line.includes("*/");
      continue;
    }
    member.push(line.replace(/\/\*\*.*?\*\/\s*/g, ""));
    depth += (line.match(/[{(]/g) ?? []).length - (line.match(/[})]/g) ?? []).length;
    if (depth || !line.endsWith(";")) continue;
    yield { comment: joined(comment), text: member.join("\n") };
    [comment, member] = [[], []];
  }
}

function content({ title, text, modules }) {
  const parts = [`# ${title}\n`, `${text}\n`];
  for (const [name, called] of Object.entries(modules)) {
    parts.push(`## ${called}\n`);
    for (const { comment, lines } of declarations(readFileSync(file(`${name}.d.ts`), "utf8"))) {
      const head = lines[0].replace(/^export (declare )?/, "");
      const [, kind, called] = /^(interface|class|function|const|type) (\w+)/.exec(head) ?? [];
      if (!kind) continue;
      const hasMembers = (kind === "interface" || kind === "class") && lines.length > 1;
      const whole = hasMembers ? head.replace(/\s*\{$/, "") : [head, ...lines.slice(1)].join("\n").replace(/\/\*\*.*?\*\/\s*/g, "");
      const list = hasMembers ? [...members(lines.slice(1, -1))].map((each) => `- ${code(each.text)}${each.comment && `: ${each.comment}`}`) : [];
      parts.push(`### ${called}\n`, `${code(whole)}${comment && `\n\n${comment}`}\n`);
      if (list.length) parts.push(`${list.join("\n")}\n`);
    }
  }
  return parts.join("\n");
}

/** Each page as it has to be. */
export const reference = Object.entries(pages).map(([name, page]) => ({ at: file(`../../docs/reference/${name}`), text: content(page) }));

if (import.meta.url === pathToFileURL(process.argv[1]).href) for (const { at, text } of reference) writeFileSync(at, text);
