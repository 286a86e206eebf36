/*
 * A browser starts no worker from a page that it opened as a file, and the search runs in a worker. There, this class
 * takes the place of a worker: it runs the worker's script in a hidden frame.
 */
class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.appendChild(this.frame);
    const inner = this.frame.contentWindow;
    window.addEventListener("message", (event) => {
      if (event.source === inner) {
        this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      }
    });
    // What the script calls in a worker: it answers to the page, and loads further scripts one after another.
    inner.document.open();
    inner.document.write(`<!doctype html><body><script>
      postMessage = (data) => parent.postMessage(data, "*");
      importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done) => {
        const script = document.createElement("script");
        script.src = url;
        script.onload = script.onerror = done;
        document.body.appendChild(script);
      })), Promise.resolve());
    </scr${"ipt"}><script src="${new URL(url, location)}"></scr${"ipt"}></body>`);
    inner.document.close();
    this.loaded = new Promise((done) => {
      this.frame.addEventListener("load", done);
    });
  }

  postMessage(data) {
    this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") {
  window.Worker = FrameWorker;
}
