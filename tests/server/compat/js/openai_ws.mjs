// openai (npm) in Node: OpenAIRealtimeWS hears a question and is interrupted in its answer.
import net from "node:net";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { Microphone, finish, interruption, question, report, url } from "./talking.mjs";

const { hostname, port } = new URL(url);
const client = new OpenAI({ apiKey: "unused", baseURL: `https://${hostname}:${port}/v1` });
// The client knows only wss: the connection it is given is a plain one.
const options = { createConnection: () => net.connect(Number(port), hostname) };
const realtime = new OpenAIRealtimeWS({ model: "echoic", options }, client);
let microphone;

realtime.on("error", (error) => report.errors.push(String(error)));
realtime.on("session.created", () => {
  const audio = { input: { transcription: { model: "whisper-1" } } };
  realtime.send({ type: "session.update", session: { type: "realtime", audio } });
});
realtime.on("session.updated", () => {
  microphone = new Microphone((pcm) =>
    realtime.send({ type: "input_audio_buffer.append", audio: pcm.toString("base64") }),
  );
  microphone.say(question);
});
realtime.on("conversation.item.input_audio_transcription.completed", (event) => {
  report.transcripts.push(event.transcript);
});
realtime.on("response.output_audio.delta", (event) => {
  if (!report.audio_bytes) microphone.say(interruption);
  report.audio_bytes += Buffer.from(event.delta, "base64").length;
});
realtime.on("response.done", ({ response }) => {
  report.replies.push(response.output[0]?.content[0]?.transcript ?? "");
  if (response.status === "cancelled") report.interruptions += 1;
  else if (report.transcripts.length >= 2) finish();
});
