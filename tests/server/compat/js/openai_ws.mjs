// openai, the build for Node: OpenAIRealtimeWS, over a plain connection.
import net from "node:net";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { takeTurns } from "./openai_turns.mjs";

export default async function converse(talk) {
  const { hostname, port } = new URL(talk.url);
  const client = new OpenAI({ apiKey: "unused", baseURL: `https://${hostname}:${port}/v1` });
  // The client knows only wss: the connection it is given is a plain one.
  const options = { createConnection: () => net.connect(Number(port), hostname) };
  takeTurns(new OpenAIRealtimeWS({ model: "echoic", options }, client), talk);
}
