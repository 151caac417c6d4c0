// A Realtime session that outlives a lost connection.

const WAITING_BLOCKS = 250; // 5 s of the user's sound are kept while the connection is lost
const TRIES = 8;

export class Session {
  lost_ms = 0; // of the user's sound
  onevent = () => {};
  onlost = () => {};
  onended = () => {};
  #waiting = [];
  #tries = 0;
  #token = "";
  #last = "";
  #done = false;

  constructor(key) {
    this.key = key;
    this.#connect();
  }

  #connect() {
    const query = new URLSearchParams([["echoic", "timing"], ["echoic", "words"], ["echoic", "memory"], ["echoic", "resume"]]);
    if (this.#token) query.append("token", this.#token);
    if (this.#token && this.#last) query.append("last", this.#last);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const protocols = ["realtime", ...(this.key ? [`openai-insecure-api-key.${this.key}`] : [])];
    this.socket = new WebSocket(`${scheme}://${location.host}/v1/realtime?${query}`, protocols);
    this.socket.onmessage = ({ data }) => this.#take(JSON.parse(data));
    this.socket.onclose = ({ code, reason }) => this.#closed(code, reason);
  }

  #take(event) {
    this.#last = event.event_id;
    if (event.type === "echoic.session") this.#token = event.token;
    if (event.type === "error" && event.error.code === "resume_failed") this.#token = "";
    if (event.type === "session.created" || event.type === "echoic.resumed") {
      this.#tries = 0;
      this.open = true;
    }
    this.onevent(event);
    if (this.open) for (const waiting of this.#waiting.splice(0)) this.send(waiting);
  }

  #closed(code, reason) {
    this.open = false;
    const hopeless = [3000, 4000, 1008, 1009].includes(code) || this.#tries >= TRIES;
    if (this.#done || hopeless) return this.onended(code, reason);
    const seconds = this.#tries ? Math.min(4, 0.25 * 2 ** this.#tries) : 0;
    this.#tries++;
    this.onlost(code, reason);
    this.timer = setTimeout(() => this.#connect(), seconds * 1000);
  }

  send(event) {
    if (this.open) return this.socket.send(JSON.stringify(event));
    this.#waiting.push(event);
    if (this.#waiting.length > WAITING_BLOCKS) {
      this.#waiting.shift();
      this.lost_ms += 20;
    }
  }

  close() {
    this.#done = true;
    clearTimeout(this.timer);
    if (this.socket.readyState > WebSocket.OPEN) this.onended(1000, "");
    this.socket.close(1000);
  }
}
