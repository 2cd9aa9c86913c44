// The page of a host, in the browser: the reference bridge on one side of a sandboxed frame, the test on the other.

import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

let bridge;

// Shows a view and resolves once it has its tool result. `callTool` and `saveFile` are the test's.
window.openView = async ({ sandbox, html, result, capabilities, theme, width }) => {
  await window.closeView();
  const frame = document.createElement("iframe");
  frame.style.cssText = `width: ${width}px; height: 100px; border: 1px solid gray; border-radius: 8px`;
  document.body.replaceChildren(frame);
  document.body.style.background = theme === "dark" ? "#111" : "#eee";
  bridge = new AppBridge(null, { name: "test-host", version: "1" }, capabilities, { hostContext: { theme, displayMode: "inline" } });
  bridge.oncalltool = (params) => window.callTool(params);
  bridge.ondownloadfile = async ({ contents }) => (await window.saveFile(contents[0].resource), {});
  bridge.onsizechange = ({ height }) => height && (frame.style.height = `${height}px`);
  bridge.onsandboxready = () => bridge.sendSandboxResourceReady({ html, sandbox: "allow-scripts" });
  const ready = new Promise((resolve) => (bridge.oninitialized = resolve));
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.src = sandbox;
  await ready;
  await bridge.sendToolInput({ arguments: {} });
  await bridge.sendToolResult(result);
};
window.setTheme = (theme) => bridge.setHostContext({ theme, displayMode: "inline" });
window.closeView = async () => {
  if (!bridge) return;
  await bridge.teardownResource({});
  await bridge.close();
  bridge = undefined;
};
