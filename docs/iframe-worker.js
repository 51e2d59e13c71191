// The search runs in a web worker, which browsers refuse to pages that are opened from a disk. There a hidden frame takes
// its place: scripts are loaded into it, and messages go to and fro as events.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inner = frame.contentWindow;
      const base = new URL(url, location.href);
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = inner.document.createElement("script");
          script.src = new URL(source, base);
          script.onload = resolve;
          script.onerror = reject;
          inner.document.body.appendChild(script);
        });
      inner.importScripts = (...sources) => sources.reduce((done, source) => done.then(() => load(source)), Promise.resolve());
      inner.postMessage = (data) => {
        const message = new MessageEvent("message", { data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      this.inner = inner;
      this.frame = frame;
      this.ready = load(base);
    }
    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
