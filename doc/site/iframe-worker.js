// iframe-worker.js - search in pages opened from disk. Browsers refuse to start a worker from file://, so its script runs in a
// hidden frame of the page instead. `IFrameWorker` is the name by which the theme's search knows that it runs in one.

if (location.protocol === "file:")
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = []; // messages from before the script was there
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow, script = this.frame.contentDocument.createElement("script");
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
      script.onload = () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach(data => this.postMessage(data));
      };
      script.onerror = () => this.dispatchEvent(new ErrorEvent("error", {message: "cannot read " + url}));
      script.src = url;
      this.frame.contentDocument.body.appendChild(script);
    }
    postMessage(data) {
      if (this.waiting)
        this.waiting.push(data);
      else
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data}));
    }
    terminate() { this.frame.remove(); }
  };
