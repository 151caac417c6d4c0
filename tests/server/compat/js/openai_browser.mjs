// openai, the build for browsers: OpenAIRealtimeWebSocket, which knows only wss and is let in by its subprotocol.
import OpenAI from "openai";
import { OpenAIRealtimeWebSocket } from "openai/realtime/websocket";
import { takeTurns } from "./openai_turns.mjs";

export default async function converse(talk) {
  const baseURL = talk.url.replace(/^ws/, "http");
  const client = new OpenAI({ apiKey: "unused", baseURL, dangerouslyAllowBrowser: true });
  takeTurns(new OpenAIRealtimeWebSocket({ model: "echoic", dangerouslyAllowBrowser: true }, client), talk);
}
