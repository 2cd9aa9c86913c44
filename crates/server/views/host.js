// The host: JSON-RPC by postMessage, both ways. A view says in `told` what it listens to, and in `fail` how it shows an error.
const post = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
const ask = (method, params) => new Promise((resolve, reject) => {
	post({ id: waiting.push({ resolve, reject }) - 1, method, params });
	setTimeout(reject, HOST_WAIT_MS, Error("the host did not answer"));
});
addEventListener("message", ({ source, data }) => {
	if (source !== parent) return;
	const { id, method, params, result, error } = data;
	if (error) waiting[id]?.reject(Error(error.message));
	else if (!method) waiting[id]?.resolve(result);
	// Only a ping or a farewell is asked of a view.
	else if (id !== undefined) post({ id, result: {} });
	else told[method]?.(params)?.catch(fail);
});
function contentOf({ isError, structuredContent: reply, content }) {
	if (isError) throw Error(reply?.error?.message ?? reply?.message ?? content[0]?.text);
	if (!reply) throw Error("the reply has no data");
	return reply;
}
