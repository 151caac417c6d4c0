// openai (npm), the browser's build: it authenticates by subprotocol, on the ws package in the browser's place.
import OpenAI from "openai";
import { OpenAIRealtimeWebSocket } from "openai/realtime/websocket";
import WebSocket from "ws";
import { finish, report, url } from "./talking.mjs";

globalThis.WebSocket = class extends WebSocket {
  constructor(address, protocols) {
    super(String(address).replace(/^wss:/, "ws:"), protocols); // the client knows only wss
  }
};
const { host } = new URL(url);
const client = new OpenAI({ apiKey: "unused", baseURL: `https://${host}/v1`, dangerouslyAllowBrowser: true });
const realtime = new OpenAIRealtimeWebSocket({ model: "echoic", dangerouslyAllowBrowser: true }, client);

realtime.on("error", (error) => report.errors.push(String(error)));
realtime.on("session.created", () => {
  const content = [{ type: "input_text", text: "What is two plus two?" }];
  realtime.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
  realtime.send({ type: "response.create", response: { output_modalities: ["text"] } });
});
realtime.on("response.output_text.done", (event) => report.replies.push(event.text));
realtime.on("response.done", finish);
