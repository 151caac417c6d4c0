// Runs a client in Node: its name, the server's URL and two recordings are given on the command line.
import { readFileSync } from "node:fs";
import { WebSocket } from "ws";
import { Talk } from "./talking.mjs";

globalThis.WebSocket ??= WebSocket; // from version 22 on Node has its own, as React Native does

const [client, url, ...recordings] = process.argv.slice(2);
const { default: converse } = await import(`./${client}.mjs`);
const talk = new Talk(url, ...recordings.map((path) => readFileSync(path)));
await converse(talk);
const report = { ...(await talk.finished()), build: import.meta.resolve("@openai/agents-realtime/_shims") };
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
