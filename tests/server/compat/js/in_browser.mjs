// Bundled into a page: `converse` runs a client there with the recordings that the page's own host serves.
import agents_realtime from "./agents_realtime.mjs";
import openai_browser from "./openai_browser.mjs";
import { Talk } from "./talking.mjs";

const clients = { agents_realtime, openai_browser };

globalThis.converse = async (client, url) => {
  const files = ["/question.wav", "/interruption.wav"];
  const recordings = await Promise.all(files.map(async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer())));
  const talk = new Talk(url, ...recordings);
  await clients[client](talk);
  return talk.finished();
};
